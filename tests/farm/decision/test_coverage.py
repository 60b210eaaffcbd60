"""Comparisons of a thing with itself: how many intervals cover 1, and whether that is what they claim."""

from __future__ import annotations

import numpy as np
import pytest

from farm.decision.comparison import compare_figures, decide
from farm.decision.coverage import coverage
from farm.rows.compare import CompareRow, ComparisonOutcome, Side
from farm.tables.compare import coverage_lines


def row(low: float, high: float, outcome: ComparisonOutcome = ComparisonOutcome.SAME) -> CompareRow:
    return CompareRow.model_construct(model="m", unit="u", runtime="gpu", ratio_ci=(low, high), outcome=outcome)


def simulated(comparisons: int, process_percent: float, replicates: int, rounds: int) -> list[CompareRow]:
    """Comparisons of equals whose processes differ by so much; each round of a process counts as a replicate."""
    random = np.random.default_rng(5)
    rows = []
    for _ in range(comparisons):
        processes = np.exp(random.normal(0, process_percent / 100, (2, replicates)))
        times = np.repeat(processes, rounds, axis=1) * np.exp(random.normal(0, 0.001, (2, replicates * rounds)))
        decision = decide(times[0].tolist(), times[1].tolist(), 0.0)
        rows.append(CompareRow.model_construct(**dict(compare_figures(Side(), Side(), decision, 0.0))))
    return rows


def test_intervals_are_counted_and_measured() -> None:
    rows = [row(0.99, 1.01)] * 18 + [row(1.001, 1.03), row(0.95, 0.99, ComparisonOutcome.FASTER)]
    found = coverage(rows)
    assert found is not None
    assert (found.comparisons, found.covering, found.told) == (20, 18, 1)
    assert found.width_percent == pytest.approx(2.0)
    assert found.share_ci == pytest.approx((0.683, 0.988), abs=1e-3)  # Clopper and Pearson's tables
    assert found.is_honest


def test_without_intervals_nothing_is_said() -> None:
    empty = CompareRow.model_construct(model="m", unit="u", runtime="cpu", ratio_ci=None)
    assert coverage([empty]) is None
    assert coverage_lines([empty]) == ["m on u (cpu): no comparison had an interval"]


@pytest.mark.slow
@pytest.mark.parametrize("process_percent", [0.0, 0.5, 2.0])
def test_a_process_a_replicate_is_honest(process_percent: float) -> None:
    found = coverage(simulated(300, process_percent, replicates=10, rounds=1))
    assert found is not None and found.is_honest


@pytest.mark.slow
def test_rounds_of_one_process_as_replicates_are_not() -> None:
    found = coverage(simulated(100, 1.0, replicates=2, rounds=5))
    assert found is not None and found.covering < 70
    assert not found.is_honest


def test_a_line_for_each_case() -> None:
    other = row(0.5, 0.6).model_copy(update={"unit": "v"})
    lines = coverage_lines([row(0.99, 1.01), *[other] * 3, row(0.98, 1.02)])
    assert lines[0].startswith(
        "m on u (gpu): 2 of 2 intervals cover 1 (16 to 100 %), as 95 % intervals do; median width"
    )
    assert lines[1].startswith("m on v (gpu): 0 of 3 intervals cover 1 (0 to 71 %), NOT as")
