"""The choice over a whole graph is exact: what it predicts is what the plan holds, and no other choice is cheaper."""

import dataclasses
import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from runtime.convert import convert
from runtime.errors import ModelError
from runtime.graph import Graph
from runtime.lowering.builder import Builder
from runtime.lowering.choice import NodeChoice, Place, graph_choice, graph_hash
from runtime.lowering.lower import emit_launches, lower
from runtime.lowering.options import Options
from runtime.oracle.evaluate import evaluate
from runtime.peaks import peaks_of
from runtime.plan.encode import encode_plan
from runtime.reference.device import target_of_device
from runtime.reference.executor import Executor
from runtime.selection.candidates import Candidates, Merger, NodeCandidate
from runtime.selection.costs import AnalyticCosts, LaunchCosts, MeasuredCosts, cost_key, moved_bytes, total_ms
from runtime.selection.evaluation import Evaluation
from runtime.selection.listing import find_candidates
from runtime.selection.memory import MemoryGoal, least_memory, solutions, solve_within
from runtime.selection.precisions import NeededLaunch, bounded_choice
from runtime.selection.problem import make_problem
from runtime.selection.selection import select_among, select_choice
from runtime.semantics.generic_forms import gather_form
from runtime.target import Target
from runtime.types import Algorithm, Precision, Precisions, asked_algorithms
from tests.opencl import default_device
from tests.runtime.format_networks import reflected_middle
from tests.runtime.graphs import GraphMaker
from tests.runtime.random_graphs import random_graphs
from tests.runtime.selection_graphs import (
    AUTO,
    GPU,
    GPU_AND_CPU,
    DrawnCosts,
    Halved,
    all_choices,
    any_graphs,
    everywhere,
    joining_graphs,
    large_graph,
    live_peak,
    node_by_node,
    several,
)
from tests.runtime.test_mixed_precision import BOTH

MOST_CHOICES = 100  # of a graph that is tried exhaustively
_IN_HALF = [dataclasses.replace(each, precision=Precision.FP16_STORAGE) for each in (GPU, GPU_AND_CPU)]
TARGETS = [GPU, GPU_AND_CPU, *_IN_HALF]


def lowered(graph: Graph, target: Target, nodes: Mapping[str, NodeChoice]) -> Builder:
    choice = graph_choice(graph, nodes)
    return emit_launches(graph, target, dataclasses.replace(AUTO, choice=choice))


def least_ms(graph: Graph, target: Target, candidates: Candidates, costs: LaunchCosts) -> float:
    """The least cost of any plan, by lowering every one."""
    return min(total_ms(lowered(graph, target, nodes).launches, costs) for nodes in all_choices(candidates))


@pytest.mark.slow
@several
@given(joining_graphs(), st.sampled_from(TARGETS), st.integers(0, 99), st.sampled_from([0.1, 1.0]))
def test_no_choice_of_a_joining_graph_is_cheaper(graph: Graph, target: Target, seed: int, conversion: float) -> None:
    check_exact(graph, target, DrawnCosts(seed, conversion))


@pytest.mark.slow
@several
@given(random_graphs(), st.sampled_from(TARGETS), st.integers(0, 99))
def test_no_choice_of_any_small_graph_is_cheaper(drawn: tuple[Graph, GraphMaker], target: Target, seed: int) -> None:
    check_exact(drawn[0], target, DrawnCosts(seed))


def check_exact(graph: Graph, target: Target, costs: LaunchCosts) -> None:
    candidates = find_candidates(graph, target, AUTO)
    assume(math.prod(len(candidates.choices(node)) for node in graph.nodes) <= MOST_CHOICES)
    selection = select_among(candidates, costs)
    assert selection.gap == 0
    assert selection.milliseconds == pytest.approx(least_ms(graph, target, candidates, costs))


@pytest.mark.slow
@several
@given(any_graphs(), st.sampled_from(TARGETS), st.integers(0, 99), st.data())
def test_any_choice_costs_what_the_lowered_plan_costs(
    graph: Graph, target: Target, seed: int, data: st.DataObject
) -> None:
    candidates, costs = find_candidates(graph, target, AUTO), DrawnCosts(seed)
    nodes = {node.output: data.draw(st.sampled_from(candidates.choices(node))) for node in graph.nodes}
    evaluation = Evaluation(make_problem(candidates, costs), nodes)
    builder = lowered(graph, target, nodes)
    assert evaluation.milliseconds == pytest.approx(total_ms(builder.launches, costs))
    told = sorted((each.tensor, each.source) for each in evaluation.conversions)
    assert told == sorted((each.tensor, each.source) for each in builder.conversions)
    node = data.draw(st.sampled_from(graph.nodes))
    other = {**nodes, node.output: data.draw(st.sampled_from(candidates.choices(node)))}
    assert evaluation.with_one(node.output, other[node.output]) == pytest.approx(
        total_ms(lowered(graph, target, other).launches, costs)
    )


def test_what_lies_in_a_concat_of_two_that_the_cpu_joins_costs_what_its_plan_does() -> None:
    """The inner one holds a part that the outer one joins, too, and is itself written row-major by the CPU."""
    make, target = GraphMaker(), dataclasses.replace(GPU_AND_CPU, precision=Precision.FP16_STORAGE)
    part = make.conv(make.input(1, 16, 4, 4), 16, k=1)
    inner = make.add("Concat", part, make.add("Relu", part), axis=1)
    graph = make.finish(make.add("Concat", inner, part, axis=1))
    candidates, costs = find_candidates(graph, target, AUTO), DrawnCosts(22)
    problem = make_problem(candidates, costs)
    for nodes in all_choices(candidates):
        assert Evaluation(problem, nodes).milliseconds == total_ms(lowered(graph, target, nodes).launches, costs)


@several
@given(any_graphs(), st.sampled_from(TARGETS), st.integers(0, 99))
def test_rules_are_never_cheaper(graph: Graph, target: Target, seed: int) -> None:
    problem = make_problem(find_candidates(graph, target, AUTO), DrawnCosts(seed))
    best = select_among(problem.candidates, DrawnCosts(seed)).milliseconds
    rules = [everywhere(problem, place) for place in Place]
    rules += [node_by_node(problem, rule) for rule in rules]
    assert all(best <= Evaluation(problem, rule.nodes).milliseconds * (1 + 1e-9) for rule in rules)


@pytest.mark.slow
@several
@given(any_graphs(), st.data())
def test_plans_of_any_choice_compute_the_graph(graph: Graph, data: st.DataObject) -> None:
    target = target_of_device(default_device())
    candidates = find_candidates(graph, target, AUTO)
    nodes = {node.output: data.draw(st.sampled_from(candidates.choices(node))) for node in graph.nodes}
    plan = lower(graph, target, dataclasses.replace(AUTO, choice=graph_choice(graph, nodes)))
    random = np.random.default_rng(5)
    inputs = {name: random.uniform(-1, 1, graph.shape(name)).astype(np.float32) for name in graph.inputs}
    expected = evaluate(graph, inputs)
    for name, actual in Executor(encode_plan(plan), plan.data, default_device()).run(inputs).items():
        scale = max(1.0, float(np.abs(expected[name]).max()))
        np.testing.assert_allclose(actual, expected[name], rtol=0, atol=1e-4 * scale)


def stem(make: GraphMaker) -> Graph:
    """A residual block of convolutions that Winograd's algorithm serves, and one that it does not."""
    x = make.conv(make.input(1, 16, 8, 8), 16, k=1)
    y = make.conv(make.conv(x, 16), 16, residual=x)
    return make.finish(y)


def measure_needed(
    candidates: Candidates, bound: LaunchCosts, measure: Callable[[NeededLaunch], float]
) -> dict[str, float]:
    """Times by `cost_key` of all launches that were asked for until the cheapest choice rests on measured ones."""
    known: dict[str, float] = {}
    while needed := bounded_choice(candidates, known, bound).needed:
        known |= {each.key: measure(each) for each in needed}
    return known


@pytest.mark.slow
@several
@given(joining_graphs(), st.integers(0, 99))
def test_what_is_measured_suffices(graph: Graph, seed: int) -> None:
    candidates, costs = find_candidates(graph, GPU, AUTO), DrawnCosts(seed)
    measured = measure_needed(candidates, Halved(costs), lambda needed: costs.milliseconds(needed.launch))
    everything = {cost_key(launch) for launch in candidates.launches()}
    found = select_among(candidates, MeasuredCosts(measured, Halved(costs)))
    assert found.milliseconds == pytest.approx(select_among(candidates, costs).milliseconds)
    assert set(measured) <= everything


@pytest.mark.slow
@several
@given(any_graphs(), st.sampled_from(TARGETS), st.integers(0, 99), st.floats(0, 1))
def test_a_limit_of_memory_is_kept_at_a_price(graph: Graph, target: Target, seed: int, share: float) -> None:
    costs = DrawnCosts(seed)
    candidates = find_candidates(graph, target, AUTO)
    least, free = least_memory(make_problem(candidates, costs)), select_among(candidates, costs)
    limit = least + int(share * max(0, live_peak(lowered(graph, target, free.choice.nodes)) - least))
    found = select_among(candidates, costs, MemoryGoal(limit))
    assert live_peak(lowered(graph, target, found.choice.nodes)) <= limit
    assert found.milliseconds >= free.milliseconds * (1 - 1e-9)
    with pytest.raises(ModelError, match=f"within {least - 1} bytes; the least takes {least}"):
        select_among(candidates, costs, MemoryGoal(least - 1))


@pytest.mark.slow
@several
@given(any_graphs(), st.sampled_from(TARGETS), st.integers(0, 99), st.floats(0, 0.5))
def test_memory_is_saved_for_no_more_time_than_allowed(
    graph: Graph, target: Target, seed: int, slowdown: float
) -> None:
    costs = DrawnCosts(seed)
    candidates = find_candidates(graph, target, AUTO)
    problem = make_problem(candidates, costs)
    cheapest, lean = solutions(problem, MemoryGoal(slowdown=slowdown))
    most_ms = cheapest.milliseconds * (1 + slowdown)
    assert lean.milliseconds <= most_ms * (1 + 1e-6)
    least = least_memory(problem, most_ms)
    found = select_among(candidates, costs, MemoryGoal(slowdown=slowdown))
    assert live_peak(lowered(graph, target, found.choice.nodes)) <= least
    assert found.milliseconds == pytest.approx(select_among(candidates, costs, MemoryGoal(least)).milliseconds)
    if least > least_memory(problem):
        less = solve_within(problem, least - 1)
        assert less.milliseconds > most_ms * (1 - 1e-6), "less memory would cost more time than is allowed"


def test_a_choice_is_obeyed_node_by_node() -> None:
    graph = stem(GraphMaker())
    first, second, third = (node.output for node in graph.nodes)
    nodes = {
        first: NodeChoice(Place.IMAGE),
        second: NodeChoice(Place.BUFFER, Algorithm.WINOGRAD_2),
        third: NodeChoice(Place.IMAGE, Algorithm.WINOGRAD_4),
    }
    builder = lowered(graph, GPU, nodes)
    kernels = [launch.kernel.name for launch in builder.launches]
    transforms = [kernel for kernel in kernels if kernel.startswith("winograd")]
    assert transforms == ["winograd_input", "winograd_gemm", "winograd_output"] * 2
    assert [launch.defines.get("WINO") for launch in builder.launches if launch.op == "WinogradInverse"] == [2, 4]
    assert [(each.tensor, each.source.name) for each in builder.conversions] == [
        ("x0", "FLAT"),
        (first, "IMAGE"),
        (second, "NHWC"),
        (third, "IMAGE"),
    ]


@pytest.mark.parametrize(
    ("chosen", "problem"),
    [
        (NodeChoice(Place.CPU), "cpu, which the target is not for"),
        (NodeChoice(Place.BUFFER, Algorithm.WINOGRAD_2), "winograd2, which does not serve it"),
    ],
)
def test_a_node_that_cannot_obey_is_named(chosen: NodeChoice, problem: str) -> None:
    graph = stem(GraphMaker())
    nodes = {node.output: NodeChoice(Place.BUFFER) for node in graph.nodes} | {graph.nodes[0].output: chosen}
    with pytest.raises(ModelError, match=f"{graph.nodes[0].name}.*{problem}"):
        lowered(graph, GPU, nodes)


def test_the_alternative_of_a_node_is_told_with_its_cost() -> None:
    graph = stem(GraphMaker())
    selection = select_choice(graph, GPU, DrawnCosts(1), AUTO)
    for name, told in selection.nodes.items():
        assert told.alternative is not None and told.alternative != told.choice
        assert told.alternative_ms is not None and told.alternative_ms >= selection.milliseconds
        assert selection.choice.nodes[name] == told.choice
    assert selection.choice.graph == graph_hash(graph)


def test_a_fixed_tile_is_the_only_one() -> None:
    graph = stem(GraphMaker())
    for winograd, algorithm in ((0, Algorithm.DIRECT), (2, Algorithm.WINOGRAD_2), (4, Algorithm.WINOGRAD_4)):
        candidates = find_candidates(graph, GPU, Options(algorithms=asked_algorithms(winograd)))
        assert {choice.algorithm for choice in candidates.choices(graph.nodes[1])} == {algorithm}
        assert {choice.algorithm for choice in candidates.choices(graph.nodes[0])} == {Algorithm.DIRECT}


def test_all_are_weighed_by_default_on_a_driver_for_cpus() -> None:
    graph, default = stem(GraphMaker()), Options(algorithms=asked_algorithms("default"))
    for target, algorithms in (
        (dataclasses.replace(GPU, gpu_family="pocl-3.1"), set(Algorithm)),
        (GPU, {Algorithm.DIRECT}),
    ):
        candidates = find_candidates(graph, target, default)
        assert {choice.algorithm for choice in candidates.choices(graph.nodes[1])} == algorithms


@pytest.mark.parametrize("operators", [150, pytest.param(1000, marks=pytest.mark.slow)])
def test_a_large_graph_is_solved_to_the_optimum(operators: int) -> None:
    graph, costs = large_graph(operators), DrawnCosts(3, 0.3)
    selection = select_choice(graph, GPU, costs, AUTO)
    builder = lowered(graph, GPU, selection.choice.nodes)
    assert len(graph.nodes) == operators and selection.gap == 0
    assert selection.milliseconds == pytest.approx(total_ms(builder.launches, costs))
    assert len(selection.conversions) == len(builder.conversions)


@pytest.mark.slow
def test_light_operators_between_images_take_few_conversions() -> None:
    graph, _ = convert(reflected_middle(112))
    costs = AnalyticCosts(peaks_of(GPU))
    problem = make_problem(find_candidates(graph, GPU, AUTO), costs)
    images = lowered(graph, GPU, everywhere(problem, Place.IMAGE).nodes)
    exact = lowered(graph, GPU, select_among(problem.candidates, costs).choice.nodes)
    assert (len(images.conversions), len(exact.conversions)) == (18, 4)
    assert total_ms(exact.launches, costs) < total_ms(images.launches, costs)


def test_few_launches_have_to_be_measured() -> None:
    """The model is the bound, and the truth is one to two times as much."""
    graph, _ = convert(reflected_middle(112))
    candidates, model, drawn = find_candidates(graph, GPU, AUTO), AnalyticCosts(peaks_of(GPU)), DrawnCosts(1)

    def measure(needed: NeededLaunch) -> float:
        return model.milliseconds(needed.launch) * (1 + drawn.milliseconds(needed.launch) % 50 / 50)

    measured = measure_needed(candidates, model, measure)
    assert len(measured) < len({cost_key(launch) for launch in candidates.launches()})


def unmerged(self: Merger, candidates: Iterable[NodeCandidate]) -> tuple[NodeCandidate, ...]:
    return tuple(candidates)


def each_way(candidate: NodeCandidate) -> Iterator[object]:
    """What a candidate is for each combination of its readings."""
    launches = tuple(map(cost_key, candidate.launches))
    for readings in itertools.product(*candidate.readings):
        read = tuple(
            (each.tensor, each.state, tuple((want.tensor, cost_key(want.launch)) for want in each.wants))
            for each in readings
        )
        yield candidate.choice, candidate.output, launches, candidate.scratch_bytes, read


def ways_of_each_node(candidates: Candidates) -> dict[str, Counter[object]]:
    return {
        name: Counter(way for candidate in found for way in each_way(candidate))
        for name, found in candidates.nodes.items()
    }


@pytest.mark.slow
@several
@given(any_graphs(), st.sampled_from([(), BOTH]), st.booleans())
def test_nothing_is_lost_and_nothing_is_added(graph: Graph, precisions: Precisions, has_cpu: bool) -> None:
    target = GPU_AND_CPU if has_cpu else GPU
    merged = find_candidates(graph, target, AUTO, precisions)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Merger, "merged", unmerged)
        every = find_candidates(graph, target, AUTO, precisions)
    assert ways_of_each_node(merged) == ways_of_each_node(every)


def test_inputs_add_up_instead_of_multiplying() -> None:
    """An Add of two computed tensors has one candidate for each choice, with every state of each tensor."""
    graph = large_graph(40)
    found = find_candidates(graph, GPU, AUTO, BOTH)
    add = [node for node in graph.nodes if node.op == "Add"][-1]
    candidates = found.nodes[add.output]
    assert len(candidates) == len(found.choices(add)) == 4
    for candidate in candidates:
        for name, readings in zip(add.inputs, candidate.readings, strict=True):
            assert {each.state for each in readings} == {each.output for each in found.nodes[name]}


def test_of_a_table_counts_what_is_picked() -> None:
    """On the GPU and on the CPU beside it: three rows, three indices, the result."""
    make = GraphMaker()
    form = gather_form((1000, 8), (3,), 0)
    make.finish(make.add("IndexedRead", make.input(1000, 8), make.input(3, dtype="int32"), **form))
    (node,) = make.graph.nodes
    candidates = find_candidates(make.graph, GPU_AND_CPU)
    launches = [launch for each in candidates.nodes[node.output] for launch in each.launches]
    assert {launch.kernel.name for launch in launches} == {"gather", "indexed_read"}
    assert {moved_bytes(launch) for launch in launches} == {(4 * (24 + 3 + 24), 0)}
