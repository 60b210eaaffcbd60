"""What holds for any history."""

import dataclasses
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from farm.decision.judgement import Judgement, Verdict
from farm.decision.regression import judge_series, twin_evidence
from farm.decision.rules import RULES
from farm.rows.series import Metric, Point
from tests.farm.decision.histories import history, night, with_more_blocks

ANY = st.floats(allow_nan=True, allow_infinity=True, width=32)
NIGHTS = st.lists(st.lists(st.one_of(ANY, st.just(10.0)), max_size=7).map(tuple), max_size=14)
Runs = tuple[float, ...]
OPPOSITE = {
    Verdict.REGRESSION: Verdict.IMPROVEMENT,
    Verdict.PROVISIONAL_REGRESSION: Verdict.PROVISIONAL_IMPROVEMENT,
}
OPPOSITE |= {one: other for other, one in OPPOSITE.items()}


def points(nights: list[Runs]) -> list[Point]:
    arms = ("a", "b") * 4
    return [Point(run=run, time="", runs=runs, arms=arms[: len(runs)]) for run, runs in enumerate(nights)]


@pytest.mark.slow
@settings(max_examples=60)
@given(NIGHTS, st.lists(ANY, max_size=7).map(tuple), st.integers(0, 7), st.sampled_from(Metric))
def test_any_history_gets_a_verdict_without_an_error(
    nights: list[tuple[float, ...]], runs: list[float], reruns: int, metric: Metric
) -> None:
    tonight = Point(run=99, time="", runs=runs, reruns=min(reruns, len(runs)))
    judgement = judge_series(points(nights), tonight, metric)
    assert judgement.reason
    twin = twin_evidence(judgement)
    assert judge_series(points(nights), tonight, metric, twin=twin, final=True).more == 0


@settings(max_examples=15)
@given(st.floats(0.7, 1.4), st.permutations(range(6)), st.floats(1e-3, 1e5))
def test_neither_the_order_of_blocks_nor_the_unit_of_measure_matters(
    factor: float, order: list[int], scale: float
) -> None:
    tonight = night(30, 10 * factor)
    expected = judge_series(history(30), tonight, Metric.LATENCY)
    moved = dataclasses.replace(tonight, runs=tuple(scale * tonight.runs[place] for place in order))
    scaled = [dataclasses.replace(each, runs=tuple(scale * run for run in each.runs)) for each in history(30)]
    found = judge_series(scaled, moved, Metric.LATENCY)
    assert (found.verdict, found.more) == (expected.verdict, expected.more)
    assert found.ratio == pytest.approx(expected.ratio)
    assert found.low == pytest.approx(expected.low)


@settings(max_examples=15)
@given(st.floats(0.7, 1.4), st.booleans())
def test_slower_and_faster_are_judged_alike(factor: float, measured_again: bool) -> None:
    tonight = night(30, 10 * factor)
    tonight = with_more_blocks(tonight, 6, 10 * factor) if measured_again else tonight
    one = judge_series(history(30), tonight, Metric.LATENCY)
    other = judge_series([_inverse(point) for point in history(30)], _inverse(tonight), Metric.LATENCY)
    assert other.verdict == OPPOSITE.get(one.verdict, one.verdict)
    assert one.ratio and other.ratio == pytest.approx(1 / one.ratio)


def test_the_measurements_asked_for_are_bounded() -> None:
    tonight, judgement = night(30, 10.3), Judgement(Verdict.NEW, "", more=1)
    while judgement.more:
        judgement = judge_series(history(30), tonight, Metric.LATENCY)
        tonight = with_more_blocks(tonight, judgement.more, 10.2)
    assert tonight.reruns <= RULES.most_batches * 3


@pytest.mark.slow
def test_two_thousand_series_are_judged_quickly() -> None:
    begun_s = time.process_time()
    nights = history(60)
    for number in range(2_000):
        judge_series(nights, night(number, 10.0), Metric.LATENCY)
    assert time.process_time() - begun_s < 12


def _inverse(point: Point) -> Point:
    return dataclasses.replace(point, runs=tuple(100 / run for run in point.runs))
