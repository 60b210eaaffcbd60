"""The precision of each operator is chosen with all else: exactly, conversions included, and the plan computes it."""

import dataclasses
import math
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from runtime.errors import ModelError
from runtime.graph import Graph
from runtime.lowering.builder import Builder
from runtime.lowering.choice import NodeChoice, Place, graph_choice
from runtime.lowering.launch import Launch
from runtime.lowering.lower import emit_launches, lower
from runtime.oracle.evaluate import evaluate
from runtime.plan.encode import encode_plan
from runtime.plan.plan import Plan
from runtime.plan.reading import read_plan_file
from runtime.reference.device import target_of_device
from runtime.reference.executor import Executor
from runtime.selection.costs import CostOrigin, MeasuredCosts, total_ms
from runtime.selection.evaluation import Evaluation
from runtime.selection.listing import find_candidates
from runtime.selection.memory import MemoryGoal, least_memory
from runtime.selection.precisions import (
    Precisions,
    allowed_precisions,
    candidates_in_each,
    chosen_target,
    needed_in_cheapest,
    select_in_each,
)
from runtime.selection.problem import make_problem
from runtime.selection.selection import select_among
from runtime.target import Target
from runtime.types import Algorithm, ElementType, Precision
from tests.opencl import default_device
from tests.runtime.graphs import GraphMaker
from tests.runtime.selection_graphs import (
    AUTO,
    GPU,
    GPU_AND_CPU,
    DrawnCosts,
    Halved,
    all_choices,
    any_graphs,
    joining_graphs,
    live_peak,
    several,
)

FP32, HALF, FP16 = Precision.FP32, Precision.FP16_STORAGE, Precision.FP16
BOTH = (FP32, HALF)
MOST_CHOICES = 260  # of a graph that is tried exhaustively
SETS = [BOTH, (FP32, FP16), (HALF, FP16)]


def lowered(graph: Graph, target: Target, nodes: Mapping[str, NodeChoice], precisions: Precisions = BOTH) -> Builder:
    choice = graph_choice(graph, nodes)
    options = dataclasses.replace(AUTO, choice=choice)
    return emit_launches(graph, chosen_target(target, precisions, choice), options)


@pytest.mark.slow
@several
@given(
    any_graphs(),
    st.sampled_from([GPU, GPU_AND_CPU]),
    st.sampled_from(SETS),
    st.integers(0, 99),
    st.sampled_from([0.1, 1.0]),
)
def test_no_choice_is_cheaper(
    graph: Graph, target: Target, precisions: Precisions, seed: int, conversion: float
) -> None:
    costs = DrawnCosts(seed, conversion)
    candidates = find_candidates(graph, target, AUTO, precisions)
    assume(math.prod(len(candidates.choices(node)) for node in graph.nodes) <= MOST_CHOICES)
    selection = select_among(candidates, costs)
    every = (lowered(graph, target, nodes, precisions).launches for nodes in all_choices(candidates))
    assert selection.gap == 0
    assert selection.milliseconds == pytest.approx(min(total_ms(launches, costs) for launches in every))


@pytest.mark.slow
@several
@given(any_graphs(), st.sampled_from([GPU, GPU_AND_CPU]), st.sampled_from(SETS), st.integers(0, 99), st.data())
def test_any_choice_costs_what_the_lowered_plan_costs(
    graph: Graph, target: Target, precisions: Precisions, seed: int, data: st.DataObject
) -> None:
    costs = DrawnCosts(seed)
    candidates = find_candidates(graph, target, AUTO, precisions)
    nodes = {node.output: data.draw(st.sampled_from(candidates.choices(node))) for node in graph.nodes}
    evaluation = Evaluation(make_problem(candidates, costs), nodes)
    builder = lowered(graph, target, nodes, precisions)
    assert evaluation.milliseconds == pytest.approx(total_ms(builder.launches, costs))
    told = sorted((each.tensor, each.source, each.element) for each in evaluation.conversions)
    assert told == sorted((each.tensor, each.source, each.element) for each in builder.conversions)
    node = data.draw(st.sampled_from(graph.nodes))
    other = {**nodes, node.output: data.draw(st.sampled_from(candidates.choices(node)))}
    assert evaluation.with_one(node.output, other[node.output]) == pytest.approx(
        total_ms(lowered(graph, target, other, precisions).launches, costs)
    )


@pytest.mark.slow
@several
@given(any_graphs(), st.sampled_from([GPU, GPU_AND_CPU]), st.integers(0, 99))
def test_a_mixed_plan_is_never_dearer_than_one_of_a_single_precision(graph: Graph, target: Target, seed: int) -> None:
    found = select_in_each(candidates_in_each(graph, target, allowed_precisions(BOTH), AUTO), DrawnCosts(seed))
    assert set(found) == {(FP32,), (HALF,), BOTH}
    least = min(found[FP32,].milliseconds, found[HALF,].milliseconds)
    assert found[BOTH].milliseconds <= least * (1 + 1e-9)
    first = next(iter(found))
    assert (len(first) > 1) == (found[BOTH].milliseconds < least * (1 - 2e-6))
    builder = lowered(graph, target, found[BOTH].choice.nodes)
    assert total_ms(builder.launches, DrawnCosts(seed)) == pytest.approx(found[BOTH].milliseconds)


@pytest.mark.slow
@several
@given(joining_graphs(), st.sampled_from([BOTH, (FP32, HALF, FP16)]), st.integers(0, 99))
def test_the_modelled_memory_covers_what_lives(graph: Graph, precisions: Precisions, seed: int) -> None:
    candidates, costs = find_candidates(graph, GPU, AUTO, precisions), DrawnCosts(seed)
    least = least_memory(make_problem(candidates, costs))
    found = select_among(candidates, costs, MemoryGoal(least))
    assert live_peak(lowered(graph, GPU, found.choice.nodes, precisions)) <= least


@pytest.mark.slow
@several
@given(joining_graphs(), st.data())
def test_a_mixed_plan_computes_the_graph(graph: Graph, data: st.DataObject) -> None:
    target = target_of_device(default_device())
    candidates = find_candidates(graph, target, AUTO, BOTH)
    nodes = {node.output: data.draw(st.sampled_from(candidates.choices(node))) for node in graph.nodes}
    choice = graph_choice(graph, nodes)
    plan = lower(graph, chosen_target(target, BOTH, choice), dataclasses.replace(AUTO, choice=choice))
    check(graph, plan, 2e-2)


def check(graph: Graph, plan: Plan, tolerance: float) -> None:
    random = np.random.default_rng(5)
    inputs = {name: random.uniform(-1, 1, graph.shape(name)).astype(np.float32) for name in graph.inputs}
    expected = evaluate(graph, inputs)
    for name, actual in Executor(encode_plan(plan), plan.data, default_device()).run(inputs).items():
        scale = max(1.0, float(np.abs(expected[name]).max()))
        np.testing.assert_allclose(actual, expected[name], rtol=0, atol=tolerance * scale)


FAST = 16  # output channels of what is fast in half


def chain(*channels: int) -> Graph:
    make = GraphMaker(seed=1)
    x = make.input(1, 8, 8, 8)
    for each in channels:
        x = make.conv(x, each, k=1)
    return make.finish(x)


@dataclasses.dataclass(frozen=True)
class PlantedCosts:
    """Convolutions take 1 ms in float; in half a tenth of it with so many channels, else ten times as long.

    Where they run elsewhere than in `place`, 100 ms more.
    """

    place: Place
    conversion_ms: float

    def milliseconds(self, launch: Launch) -> float:
        if launch.op != "Conv2D":
            return self.conversion_ms
        in_half = launch.precision.element == ElementType.F16
        time_ms = 1.0 if not in_half else 0.1 if launch.shown.output_shape[1] == FAST else 10.0
        return time_ms if launch.kernel.memory.value == self.place else time_ms + 100.0

    def origin(self, launch: Launch) -> CostOrigin:
        return CostOrigin.MEASURED


@pytest.mark.parametrize("place", [Place.BUFFER, Place.IMAGE])
def test_half_in_one_stretch_takes_two_casts(place: Place) -> None:
    """Three of six convolutions are fast in half: one cast into the stretch and one out of it."""
    graph, costs = chain(8, 8, FAST, FAST, FAST, 8), PlantedCosts(place, 0.01)
    found = select_in_each(candidates_in_each(graph, GPU, allowed_precisions(BOTH), AUTO), costs)
    assert next(iter(found)) == BOTH
    selection = found[BOTH]
    assert [selection.choice.nodes[node.output].precision for node in graph.nodes] == [
        *(FP32, FP32),
        *(HALF, HALF, HALF),
        FP32,
    ]
    assert {chosen.place for chosen in selection.choice.nodes.values()} == {place}
    casts = [each for each in selection.conversions if each.is_cast]
    assert [(each.tensor, each.element) for each in casts] == [
        (graph.nodes[1].output, ElementType.F16),
        (graph.nodes[4].output, ElementType.F32),
    ]
    assert {each.source for each in casts} == {each.storage for each in casts}
    assert selection.milliseconds < min(found[FP32,].milliseconds, found[HALF,].milliseconds)


def test_plans_of_one_precision_are_measured_first() -> None:
    """If the time ends, then with an answer: what is measured for a mixed plan comes when these are known."""
    graph, costs = chain(8, FAST, 8), PlantedCosts(Place.BUFFER, 0.01)
    candidates, measured = candidates_in_each(graph, GPU, allowed_precisions(BOTH), AUTO), dict[str, float]()
    asked: list[Precisions] = []
    while needed := (found := needed_in_cheapest(candidates, measured, Halved(costs)))[1].needed:
        asked.append(found[0])
        measured |= {each.key: costs.milliseconds(each.launch) for each in needed}
    assert (FP32,) in asked and found[0] == BOTH == asked[-1]
    assert set(asked[asked.index(BOTH) :]) == {BOTH}
    known = select_in_each(candidates, MeasuredCosts(measured, Halved(costs)))
    best = select_in_each(candidates, costs)
    assert next(iter(known)) == BOTH and known[BOTH].milliseconds == pytest.approx(best[BOTH].milliseconds)


def test_casts_that_cost_more_than_half_saves_are_not_made() -> None:
    graph, costs = chain(8, FAST, 8), PlantedCosts(Place.BUFFER, 5.0)
    found = select_in_each(candidates_in_each(graph, GPU, allowed_precisions(BOTH), AUTO), costs)
    assert next(iter(found)) == (FP32,)
    assert found[BOTH].milliseconds == pytest.approx(found[FP32,].milliseconds)
    assert found[BOTH].choice.precisions == (FP32,)


@pytest.mark.slow
def test_every_storage_is_cast() -> None:
    """Between float and half, each storage to each: exact where half holds the values."""
    make = GraphMaker(seed=3)
    x = make.input(1, 6, 5, 7)
    y = make.add("Relu", make.add("Relu", x))
    graph, target = make.finish(y), target_of_device(default_device())
    values = {x: make.noise()[x].astype(np.float16).astype(np.float32)}
    places = (Place.BUFFER, Place.IMAGE)
    for first in (NodeChoice(place, Algorithm.DIRECT, each) for place in places for each in BOTH):
        for second in (NodeChoice(place, Algorithm.DIRECT, each) for place in places for each in BOTH):
            nodes = dict(zip((node.output for node in graph.nodes), (first, second), strict=True))
            choice = graph_choice(graph, nodes)
            plan = lower(graph, chosen_target(target, BOTH, choice), dataclasses.replace(AUTO, choice=choice))
            found = Executor(encode_plan(plan), plan.data, default_device()).run(values)
            np.testing.assert_array_equal(found[y], np.maximum(values[x], 0), err_msg=f"{first} -> {second}")


def test_a_constant_has_the_precision_of_each_reader() -> None:
    make = GraphMaker(seed=4)
    x, table = make.input(1, 4, 4, 4), make.weights(1, 4, 1, 1)
    y = make.add("Mul", make.add("Add", x, table), table)
    graph, target = make.finish(y), target_of_device(default_device())
    for first, second in (BOTH, BOTH[::-1]):
        chosen = (NodeChoice(Place.BUFFER, Algorithm.DIRECT, each) for each in (first, second))
        choice = graph_choice(graph, dict(zip((node.output for node in graph.nodes), chosen, strict=True)))
        plan = lower(graph, chosen_target(target, BOTH, choice), dataclasses.replace(AUTO, choice=choice))
        assert plan.precisions == BOTH and plan.target.precision == HALF
        check(graph, plan, 2e-3)


def test_no_node_is_less_exact_than_the_plan() -> None:
    graph = chain(8, 8)
    chosen = (NodeChoice(Place.BUFFER, Algorithm.DIRECT, each) for each in BOTH)
    choice = graph_choice(graph, dict(zip((node.output for node in graph.nodes), chosen, strict=True)))
    with pytest.raises(ModelError, match="run in fp16_storage, which is less exact than fp32"):
        lower(graph, GPU, dataclasses.replace(AUTO, choice=choice))


def test_a_plan_file_tells_the_precision_of_each_step(tmp_path: Path) -> None:
    graph = chain(FAST, FAST)
    chosen = (NodeChoice(Place.BUFFER, Algorithm.DIRECT, each) for each in BOTH)
    choice = graph_choice(graph, dict(zip((node.output for node in graph.nodes), chosen, strict=True)))
    plan = lower(graph, chosen_target(GPU, BOTH, choice), dataclasses.replace(AUTO, choice=choice))
    path = tmp_path / "net.plan"
    path.write_bytes(encode_plan(plan))
    found = read_plan_file(path)
    convolutions = [step for step in found.steps if step.op == "Conv2D"]
    assert [step.precision for step in convolutions] == [FP32, HALF] and found.precision == HALF
    weights = [tensor.element_type for tensor in found.tensors if tensor.name.endswith(":weights")]
    assert weights == [ElementType.F32, ElementType.F16], "packed in the type of their step"
