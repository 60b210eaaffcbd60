"""The choice among precisions is the cheapest of all plans in all of them, and what was measured for it suffices."""

import dataclasses
import itertools

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from runtime.errors import ModelError
from runtime.graph import Graph
from runtime.lowering.builder import Builder
from runtime.lowering.launch import Launch
from runtime.lowering.lower import Options, lower
from runtime.lowering.options import CpuOptions
from runtime.lowering.quantized_choice import choose_quantized
from runtime.lowering.tables import QUANTIZED_OPERATORS
from runtime.lowering.value import InBytes
from runtime.selection.candidates import Candidates
from runtime.selection.costs import CostOrigin, CostsByPrecision, MeasuredCosts, cost_key
from runtime.selection.eight_bits import OperatorTimes, floats_of_least_time
from runtime.selection.memory import MemoryGoal, least_memory
from runtime.selection.precisions import candidates_in_each, needed_in_cheapest, select_in_each
from runtime.selection.problem import make_problem
from runtime.target import Target
from runtime.types import ElementType, Precision, Precisions
from tests.native.test_quantized_operators import Maker
from tests.runtime.graphs import GraphMaker
from tests.runtime.random_graphs import random_graphs
from tests.runtime.selection_graphs import AUTO, GPU, DrawnCosts

FP32, HALF = (Precision.FP32,), (Precision.FP16_STORAGE,)
BOTH = FP32 + HALF


@dataclasses.dataclass(frozen=True)
class HalfCosts:
    """The costs of a table in which half takes `factor` times as long."""

    factor: float

    def milliseconds(self, launch: Launch) -> float:
        return self.factor if launch.output.element == ElementType.F16 else 1.0

    def origin(self, launch: Launch) -> CostOrigin:
        return CostOrigin.MEASURED


def in_each(graph: Graph, *more: Precisions) -> dict[Precisions, Candidates]:
    return candidates_in_each(graph, GPU, (FP32, HALF, *more), AUTO)


def chain() -> Graph:
    make = GraphMaker(seed=1)
    x = make.input(1, 8, 8, 8)
    for _ in range(3):
        x = make.conv(x, 8, k=1)
    return make.finish(x)


@pytest.mark.parametrize(("factor", "cheapest"), [(0.5, HALF), (1.0, FP32), (2.0, FP32)])
def test_half_is_chosen_where_it_pays(factor: float, cheapest: Precisions) -> None:
    costs = HalfCosts(factor)
    found = select_in_each(in_each(chain()), costs)
    assert next(iter(found)) == cheapest and set(found) == {FP32, HALF}
    assert list(found.values()) == sorted(found.values(), key=lambda selection: selection.milliseconds)


def test_no_time_is_taken_for_that_of_another_precision() -> None:
    keys = [{cost_key(launch) for launch in candidates.launches()} for candidates in in_each(chain()).values()]
    assert all(keys) and not keys[0] & keys[1]


@pytest.mark.slow
@settings(max_examples=12, suppress_health_check=list(HealthCheck))
@given(random_graphs(), st.sampled_from([(), (BOTH,)]), st.integers(0, 99))
def test_what_is_measured_suffices(drawn: tuple[Graph, GraphMaker], mixed: tuple[Precisions, ...], seed: int) -> None:
    candidates, truth = in_each(drawn[0], *mixed), DrawnCosts(seed)
    measured: dict[str, float] = {}
    while needed := needed_in_cheapest(candidates, measured, HalfCosts(1.0))[1].needed:
        measured |= {each.key: truth.milliseconds(each.launch) for each in needed}
    known = MeasuredCosts(measured, HalfCosts(1.0))  # no drawn cost is below 1 ms
    found, best = (select_in_each(candidates, costs) for costs in (known, truth))
    assert next(iter(found.values())).milliseconds == pytest.approx(next(iter(best.values())).milliseconds)


def test_a_precision_that_cannot_be_the_cheapest_is_not_measured() -> None:
    candidates = in_each(chain())
    costs = HalfCosts(0.01)
    bound = CostsByPrecision({FP32[0]: HalfCosts(0.5), HALF[0]: HalfCosts(0.005)})
    measured: dict[str, float] = {}
    asked: set[Precisions] = set()
    while True:
        precision, found = needed_in_cheapest(candidates, measured, bound)
        if not found.needed:
            break
        asked.add(precision)
        measured |= {each.key: costs.milliseconds(each.launch) for each in found.needed}
    assert asked == {HALF} and precision == HALF


def test_half_is_taken_where_only_half_keeps_the_limit() -> None:
    candidates, costs = in_each(chain()), HalfCosts(2.0)
    least = {each: least_memory(make_problem(candidates[each], costs)) for each in candidates}
    assert least[HALF] < least[FP32]
    found = select_in_each(candidates, costs, MemoryGoal(limit_bytes=least[FP32] - 1))
    assert list(found) == [HALF]
    with pytest.raises(ModelError, match="no choice keeps activations within 1 bytes"):
        select_in_each(candidates, costs, MemoryGoal(limit_bytes=1))


CPU = Target("host", "host", memory="cpu", cpu_block=8)


def network() -> tuple[Graph, InBytes]:
    """Convolutions of one tensor, rounded and not, a sum, a function, and what only floats have."""
    maker = Maker()
    x = maker.image(1, 16, 6, 6)
    a = maker.last("Sigmoid", x)
    b = maker.convolution(a, 16, k=1)
    c = maker.last("Add", a, maker.last("Neg", x))
    d = maker.convolution(c, 16, k=1)
    e = maker.add("Softmax", maker.last("Abs", a), axis=3)
    graph = maker.finish(b, d, e)
    return graph, choose_quantized(Builder(graph, CPU, Options()), ())


def drawn(graph: Graph, choice: InBytes, seed: int) -> OperatorTimes:
    random = np.random.default_rng(seed)
    size = max(info.size for info in graph.tensors.values())
    tables = [{name: float(random.integers(1, 60)) for name in choice.nodes} for _ in range(2)]
    into, out_of = random.integers(1, 30, 2) / size
    return OperatorTimes(tables[0], tables[1], (float(into), float(out_of)))


def cost(graph: Graph, choice: InBytes, times: OperatorTimes, in_bytes: frozenset[str]) -> float:
    """By definition: the operators, and each tensor's conversions."""
    total = sum((times.in_bytes if name in in_bytes else times.in_floats)[name] for name in choice.nodes)
    stored = {choice.nodes[name] for name in in_bytes} & set(choice.tensors)
    joined = set(choice.nodes.values()) - choice.nodes.keys()
    for name, info in graph.tensors.items():
        if graph.is_constant(name):
            continue
        readers = [node for node in graph.consumers(name) if node.output not in joined]
        floats = name in graph.outputs or any(node.output not in in_bytes for node in readers)
        roundings = [node for node in readers if node.op == "FakeQuantize" and name not in choice.tensors]
        as_bytes = any(node.output in in_bytes for node in readers if node not in roundings)
        total += times.per_element[0] * info.size * (as_bytes and name not in stored)
        total += times.per_element[1] * info.size * (floats and name in stored)
    return total


@pytest.mark.parametrize("seed", range(8))
def test_no_other_choice_takes_less_time(seed: int) -> None:
    graph, choice = network()
    times, names = drawn(graph, choice, seed), list(choice.nodes)
    assert {QUANTIZED_OPERATORS[node.op].rounds for node in graph.nodes if node.output in choice.nodes} == {True, False}
    floats = floats_of_least_time(graph, choice, times)
    every = (
        frozenset(itertools.compress(names, chosen)) for chosen in itertools.product((True, False), repeat=len(names))
    )
    least = min(cost(graph, choice, times, each) for each in every)
    assert cost(graph, choice, times, frozenset(names) - floats) == pytest.approx(least, rel=1e-5)


def test_slow_bytes_are_floats_and_slow_floats_bytes() -> None:
    graph, choice = network()
    slow, fast = dict.fromkeys(choice.nodes, 1e4), dict.fromkeys(choice.nodes, 1.0)
    assert floats_of_least_time(graph, choice, OperatorTimes(slow, fast, (0.1, 0.1))) == choice.nodes.keys()
    assert floats_of_least_time(graph, choice, OperatorTimes(fast, slow, (0.1, 0.1))) == frozenset()


def test_a_node_that_is_chosen_so_computes_in_floats() -> None:
    graph, choice = network()
    name = next(node.name for node in graph.nodes if node.op == "Conv")
    output = next(node.output for node in graph.nodes if node.name == name)
    notes = [
        {step.name: step.note for step in lower(graph, CPU, Options(cpu=CpuOptions(in_floats=chosen))).steps}[name]
        for chosen in (frozenset[str](), frozenset({output}))
    ]
    assert output in choice.nodes and notes[0] == "eight bits" != notes[1]
