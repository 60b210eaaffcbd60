"""The choice among precisions is the cheapest of all plans in all of them, and what was measured for it suffices."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from runtime.errors import ModelError
from runtime.graph import Graph
from runtime.lowering.launch import Launch
from runtime.selection.candidates import Candidates
from runtime.selection.costs import CostOrigin, CostsByPrecision, MeasuredCosts, cost_key
from runtime.selection.memory import MemoryGoal, least_memory
from runtime.selection.precisions import candidates_in_each, needed_in_cheapest, select_in_each
from runtime.selection.problem import make_problem
from runtime.types import ElementType, Precision, Precisions
from tests.runtime.graphs import GraphMaker
from tests.runtime.random_graphs import random_graphs
from tests.runtime.selection_costs import GPU, DrawnCosts
from tests.runtime.selection_graphs import AUTO

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
    while needed := needed_in_cheapest(candidates, measured, HalfCosts(1.0))[1]:
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
        precision, needed = needed_in_cheapest(candidates, measured, bound)
        if not needed:
            break
        asked.add(precision)
        measured |= {each.key: costs.milliseconds(each.launch) for each in needed}
    assert asked == {HALF} and precision == HALF


def test_half_is_taken_where_only_half_keeps_the_limit() -> None:
    candidates, costs = in_each(chain()), HalfCosts(2.0)
    least = {each: least_memory(make_problem(candidates[each], costs)) for each in candidates}
    assert least[HALF] < least[FP32]
    found = select_in_each(candidates, costs, MemoryGoal(limit_bytes=least[FP32] - 1))
    assert list(found) == [HALF]
    with pytest.raises(ModelError, match="no choice keeps activations within 1 bytes"):
        select_in_each(candidates, costs, MemoryGoal(limit_bytes=1))
