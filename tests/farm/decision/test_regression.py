"""Nights that cannot be compared are told as what they are; so is what is worse in metrics that are no times."""

import dataclasses
import math

import pytest

from farm.decision.judgement import Verdict
from farm.decision.regression import compare_points, judge_series
from farm.rows.series import Metric, Point
from farm.rows.status import Status
from tests.farm.decision.histories import STEADY, history, night, settled


def verdict_of(metric: Metric = Metric.LATENCY, **changes: object) -> Verdict:
    tonight = dataclasses.replace(night(40), **changes)  # type: ignore[arg-type]
    return judge_series(history(), tonight, metric).verdict


def test_a_series_without_a_point_is_missing_and_never_unchanged() -> None:
    judgement = judge_series(history(), None, Metric.LATENCY)
    assert judgement.verdict == Verdict.MISSING
    assert judgement.verdict.is_bad
    assert "run 39" in judgement.reason


def test_a_failed_night_gives_its_reason() -> None:
    failed = dataclasses.replace(night(40), status=str(Status.DEVICE_LOST), reason="the cable", runs=())
    judgement = judge_series(history(), failed, Metric.LATENCY)
    assert (judgement.verdict, "the cable" in judgement.reason) == (Verdict.FAILED, True)


def test_a_wrong_result_is_reported_once_in_the_latency_series() -> None:
    assert verdict_of(status=Status.WRONG_RESULT) == Verdict.WRONG_RESULT
    assert verdict_of(Metric.INIT, status=Status.WRONG_RESULT) == Verdict.UNCHANGED


def test_a_night_spoiled_by_heat_is_spoiled_not_changed() -> None:
    assert verdict_of(runs=(), spoiled="throttled") == Verdict.SPOILED


@pytest.mark.parametrize("runs", [(), (math.nan,) * 4, (math.inf, math.nan), (0.0, 0.0), (-1.0,)])
def test_without_a_figure_the_night_failed(runs: tuple[float, ...]) -> None:
    assert verdict_of(runs=runs) == Verdict.FAILED


def test_figures_that_are_not_finite_are_left_out() -> None:
    tonight = night(40)
    odd = dataclasses.replace(tonight, runs=(*tonight.runs, math.nan, math.inf, -math.inf))
    assert judge_series(history(), odd, Metric.LATENCY).verdict == Verdict.UNCHANGED


@pytest.mark.parametrize("nights", [0, 1, 3])
def test_too_short_a_history_is_new(nights: int) -> None:
    assert judge_series(history(nights), night(40, 30.0), Metric.LATENCY).verdict == Verdict.NEW


def test_another_piece_of_hardware_restarts_the_series() -> None:
    other = dataclasses.replace(STEADY, identity="two")
    judgement = judge_series(history(), night(40, 12.0, like=other), Metric.LATENCY)
    assert judgement.verdict == Verdict.REPLACED
    since = [*history(), *(night(run, 12.0, like=other) for run in range(40, 50))]
    assert judge_series(since[:42], night(42, 12.0, like=other), Metric.LATENCY).verdict == Verdict.NEW
    assert settled(since, night(50, 12.0, like=other), 12.0)[0].verdict == Verdict.UNCHANGED


def test_another_driver_does_not_hide_a_regression() -> None:
    old, new = (dataclasses.replace(STEADY, fingerprint=each) for each in ("old", "new"))
    judgement, _ = settled(history(like=old), night(40, 12.0, like=new), 12.0)
    assert judgement.verdict == Verdict.REGRESSION
    assert "driver" in judgement.reason


def test_only_the_order_of_runs_counts_whatever_the_clock_says() -> None:
    jumped = [dataclasses.replace(point, time="1970-01-01") for point in history()]
    expected = judge_series(history(), night(40), Metric.LATENCY)
    assert judge_series(jumped, night(40), Metric.LATENCY) == expected


def test_two_nights_are_compared_by_their_own_noise() -> None:
    found = compare_points(night(1), night(2, 12.0), Metric.LATENCY)
    assert found.verdict == Verdict.REGRESSION
    assert found.low and found.high and found.low < 1.2 < found.high
    assert compare_points(night(1), night(2), Metric.LATENCY).verdict == Verdict.UNCHANGED
    assert compare_points(night(1), night(2, 8.0), Metric.LATENCY).verdict == Verdict.IMPROVEMENT
    assert compare_points(night(1), dataclasses.replace(night(2), runs=()), Metric.LATENCY).verdict == Verdict.FAILED


def points(*values: float) -> list[Point]:
    return [Point(run=run, time="", runs=(value,)) for run, value in enumerate(values)]


def untimed_verdict(metric: Metric, before: float, now: float) -> Verdict:
    judgement = judge_series(points(before, before, before), points(now)[0], metric)
    assert judgement.more == 0
    return judgement.verdict


@pytest.mark.parametrize(
    ("metric", "before", "worse", "alike"),
    [
        (Metric.SQNR, 40.0, 38.9, 39.1),
        (Metric.COSINE, 0.9999, 0.9997, 0.99985),
        (Metric.MAX_ERROR, 0.001, 0.0016, 0.0014),
        (Metric.NAN, 0.0, 1.0, 0.0),
        (Metric.MEMORY, 1e6, 1.02e6, 1.005e6),
        (Metric.FILES, 1000.0, 1020.0, 1009.0),
    ],
)
def test_only_changes_beyond_the_metrics_tolerance_are_regressions(
    metric: Metric, before: float, worse: float, alike: float
) -> None:
    assert untimed_verdict(metric, before, worse) == Verdict.REGRESSION
    assert untimed_verdict(metric, worse, before) == Verdict.IMPROVEMENT
    assert untimed_verdict(metric, before, alike) == Verdict.UNCHANGED


def test_a_change_within_the_usual_variation_is_unchanged() -> None:
    restless = points(40, 42, 39, 41.5, 40, 42, 39, 41)
    assert judge_series(restless, points(38.5)[0], Metric.SQNR).verdict == Verdict.UNCHANGED
    assert judge_series(restless, points(30)[0], Metric.SQNR).verdict == Verdict.REGRESSION


def test_a_first_figure_is_new_and_nan_is_a_failure() -> None:
    assert judge_series([], points(40)[0], Metric.SQNR).verdict == Verdict.NEW
    assert judge_series(points(math.nan), points(40)[0], Metric.SQNR).verdict == Verdict.NEW
    assert judge_series(points(40), points(math.nan)[0], Metric.SQNR).verdict == Verdict.FAILED


def test_zero_is_a_figure() -> None:
    assert judge_series(points(0, 0), points(0)[0], Metric.MAX_ERROR).verdict == Verdict.UNCHANGED
    assert judge_series(points(0, 0), points(0.1)[0], Metric.MAX_ERROR).verdict == Verdict.REGRESSION
    assert judge_series(points(0), points(0)[0], Metric.MEMORY).verdict == Verdict.UNCHANGED
