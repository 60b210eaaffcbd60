"""Metrics: those of farm, and those that users' programs tell."""

from __future__ import annotations

import pickle

import pytest

from farm.nightly.headline import figure_words
from farm.report.figures import figure
from farm.rows.run import EngineFigure
from farm.rows.series import Metric, MetricInfo, Nature


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
