"""Metrics: those of farm, and those that users' programs tell."""

import json
import math
import pickle

import pytest

from farm.nightly.headline import figure_words
from farm.report.figures import figure
from farm.rows.packed_points import PackedPoints
from farm.rows.run import EngineFigure
from farm.rows.series import Metric, MetricInfo, Nature, Point


def test_a_program_s_figure_is_a_metric_by_its_word() -> None:
    metric = Metric.of_figure(EngineFigure.of("prompt", "tokens/s: all", "up", [1.0]))
    assert metric == Metric("figure:up:prompt:tokens/s: all") == str(metric) == pickle.loads(pickle.dumps(metric))
    assert metric.info == MetricInfo("prompt", "tokens/s: all", Nature.TIMED, lower_is_better=False)
    assert hash(metric) == hash(Metric(str(metric))) and metric not in list(Metric)
    assert sorted([metric, Metric.LATENCY, Metric.COSINE]) == [Metric.COSINE, metric, Metric.LATENCY]
    assert figure(metric, 123.456) == "123.5 tokens/s: all"
    assert figure(Metric.of_figure(EngineFigure.of("load", "ms", "down", [1.0])), 2.0) == "2.000 ms"
    assert figure_words(metric) == ("prompt", "lower", "higher")


@pytest.mark.parametrize("word", ["figure", "figure:sideways:a:b", "figure:up:a", "latency"])
def test_other_words_are_no_metric(word: str) -> None:
    with pytest.raises(ValueError, match=word):
        Metric(word)


COMMITS = {3: "c0ffee", 5: "", 8: "naïve \0"}
TEXTS = (
    {"time": "2026-01-01T00:00:00+00:00", "runs": [1, 2.5], "arms": ["a", "b"], "identity": 'é"\\'},
    {"time": "", "runs": ["NaN", "-Infinity"], "passive": True, "temperature_c": 41.5},
    {"time": "", "runs": [], "status": "failed", "reason": "],["},
)


def packed() -> PackedPoints:
    return PackedPoints([3, 5, 8], ",".join(map(json.dumps, TEXTS)), COMMITS)


def test_points_come_out_as_they_went_in() -> None:
    first, second, third = packed()
    assert first == Point(3, "2026-01-01T00:00:00+00:00", (1.0, 2.5), ("a", "b"), identity='é"\\', commit="c0ffee")
    assert math.isnan(second.runs[0]) and second.runs[1] == -math.inf and second.temperature_c == 41.5
    assert (third.runs, third.status, third.reason, third.commit) == ((), "failed", "],[", "naïve \0")


def test_they_are_a_sequence() -> None:
    points = packed()
    assert len(points) == 3 and points.last_run == 8
    assert points[-1].run == 8 and [point.run for point in points[-2:]] == [5, 8]


def test_series_asked_for_in_turns_are_not_mixed_up() -> None:
    one, other = packed(), PackedPoints([9], json.dumps(TEXTS[0]), {9: "x"})
    assert [one[0].run, other[0].run, one[0].run, len(list(other))] == [3, 9, 3, 1]


def test_a_store_may_give_them_in_any_order() -> None:
    points = PackedPoints([8, 3, 5], ",".join(json.dumps(TEXTS[place]) for place in (2, 0, 1)), COMMITS)
    assert [(point.run, point.commit) for point in points] == list(COMMITS.items()) and points.last_run == 8
    assert points[0] == packed()[0]
