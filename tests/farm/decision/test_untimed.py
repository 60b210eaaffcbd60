"""Accuracy, memory and sizes."""

from __future__ import annotations

import math

import pytest

from farm.decision.judgement import Verdict
from farm.decision.regression import judge_series
from farm.rows.series import Metric, Point


def points(*values: float) -> list[Point]:
    return [Point(run=run, time="", runs=(value,)) for run, value in enumerate(values)]


def verdict_of(metric: Metric, before: float, now: float) -> Verdict:
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
    assert verdict_of(metric, before, worse) == Verdict.REGRESSION
    assert verdict_of(metric, worse, before) == Verdict.IMPROVEMENT
    assert verdict_of(metric, before, alike) == Verdict.UNCHANGED


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
