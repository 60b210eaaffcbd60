"""Accuracy, memory and sizes."""

from __future__ import annotations

import math

import pytest

from farm.decision.judgement import Verdict
from farm.decision.regression import judge
from farm.rows.series import Metric, Point


def points(*values: float) -> list[Point]:
    return [Point(run=run, time="", runs=(value,)) for run, value in enumerate(values)]


def verdict_of(metric: Metric, before: float, now: float) -> Verdict:
    judgement = judge(points(before, before, before), points(now)[0], metric)
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
def test_tolerances(metric: Metric, before: float, worse: float, alike: float) -> None:
    assert verdict_of(metric, before, worse) == Verdict.REGRESSION
    assert verdict_of(metric, worse, before) == Verdict.IMPROVEMENT
    assert verdict_of(metric, before, alike) == Verdict.UNCHANGED


def test_what_varies_anyway_is_no_change() -> None:
    restless = points(40, 42, 39, 41.5, 40, 42, 39, 41)
    assert judge(restless, points(38.5)[0], Metric.SQNR).verdict == Verdict.UNCHANGED
    assert judge(restless, points(30)[0], Metric.SQNR).verdict == Verdict.REGRESSION


def test_first_and_odd_figures() -> None:
    assert judge([], points(40)[0], Metric.SQNR).verdict == Verdict.NEW
    assert judge(points(math.nan), points(40)[0], Metric.SQNR).verdict == Verdict.NEW
    assert judge(points(40), points(math.nan)[0], Metric.SQNR).verdict == Verdict.FAILED


def test_nothing_at_all_is_a_figure_too() -> None:
    assert judge(points(0, 0), points(0)[0], Metric.MAX_ERROR).verdict == Verdict.UNCHANGED
    assert judge(points(0, 0), points(0.1)[0], Metric.MAX_ERROR).verdict == Verdict.REGRESSION
    assert judge(points(0), points(0)[0], Metric.MEMORY).verdict == Verdict.UNCHANGED
