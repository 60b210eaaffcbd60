"""Figures have as many digits as mean something, and a unit."""

from __future__ import annotations

import math

import pytest

from farm.decision.judgement import Judgement, Verdict
from farm.report.figures import change, duration, figure, interval, milliseconds, moment, percent
from farm.rows.series import Metric


@pytest.mark.parametrize(
    ("metric", "value", "shown"),
    [
        (Metric.LATENCY, 12.3456, "12.35 ms"),
        (Metric.LATENCY, 0.123456, "0.1235 ms"),
        (Metric.LATENCY, 1234.56, "1235 ms"),
        (Metric.INIT, 15_100.0, "15.10 s"),
        (Metric.COSINE, 0.9999871, "0.999987"),
        (Metric.SQNR, 46.12, "46.1 dB"),
        (Metric.MAX_ERROR, 0.0001934, "0.000193"),
        (Metric.NAN, 3.0, "3"),
        (Metric.MEMORY, 34_821_120.0, "33.2 MiB"),
        (Metric.LATENCY, None, "–"),
        (Metric.LATENCY, math.nan, "not a number"),
        (Metric.MEMORY, math.inf, "not a number"),
    ],
)
def test_figures(metric: Metric, value: float | None, shown: str) -> None:
    assert figure(metric, value) == shown


def test_changes_are_ratios_or_differences() -> None:
    timed = Judgement(Verdict.REGRESSION, "", value=11.0, baseline=10.0, ratio=1.098, low=1.079, high=1.116)
    assert (change(Metric.LATENCY, timed), interval(timed.low, timed.high)) == ("+9.8 %", "+7.9 to +11.6 %")
    sqnr = Judgement(Verdict.REGRESSION, "", value=41.0, baseline=46.0)
    assert change(Metric.SQNR, sqnr) == "−5.0 dB"
    assert sqnr.relative_change == pytest.approx(-5 / 46)
    smaller = Judgement(Verdict.IMPROVEMENT, "", value=1.0 * 2**20, baseline=3.0 * 2**20)
    assert change(Metric.MEMORY, smaller) == "−2.0 MiB"
    assert change(Metric.NAN, Judgement(Verdict.UNCHANGED, "", value=0.0, baseline=0.0)) == "0"
    assert change(Metric.NAN, Judgement(Verdict.NEW, "")) == "–"


def test_what_is_no_number_is_no_change() -> None:
    broken = Judgement(Verdict.FAILED, "", value=math.nan, baseline=1.0, ratio=math.inf, low=math.nan, high=1.0)
    assert (change(Metric.LATENCY, broken), interval(broken.low, broken.high), broken.relative_change) == ("–", "", 0)


def test_percent_and_times() -> None:
    assert (percent(0.934), milliseconds(None)) == ("−6.6 %", "–")
    assert moment("2026-11-21T03:00:00+01:00") == "2026-11-21 02:00 UTC"
    assert moment("no time") == "no time"
    assert duration("2026-11-21T02:00:00+00:00", "2026-11-21T05:12:00+00:00") == "3 h 12 min"
    assert duration("2026-11-21T02:00:00+00:00", "") == "–"
