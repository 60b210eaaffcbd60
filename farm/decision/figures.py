"""Metrics that are nearly or exactly the same each night: accuracy, memory, sizes. Measuring again changes nothing."""

from __future__ import annotations

import dataclasses
import math
import statistics
from collections.abc import Callable, Sequence

from farm.decision.judgement import Judgement, Verdict
from farm.series import Metric, Point

RECENT = 30


@dataclasses.dataclass(frozen=True)
class Tolerance:
    """By how much the second of two figures is worse (negative: better), in a unit of which 1 is too much."""

    worse: Callable[[float, float], float]
    told: str


def _worse_cosine(before: float, now: float) -> float:
    """Distances from 1, by their ratio: twice as far counts, unless both are next to nothing."""
    floor = 1e-6
    return math.log2((max(1 - now, 0) + floor) / (max(1 - before, 0) + floor))


def _worse_error(before: float, now: float) -> float:
    """Half as large again counts."""
    floor = 1e-9
    return math.log((now + floor) / (before + floor)) / math.log(1.5)


def _worse_size(before: float, now: float) -> float:
    """A hundredth counts."""
    return (now - before) / (0.01 * max(abs(before), 1.0))


TOLERANCES = {
    Metric.SQNR: Tolerance(lambda before, now: before - now, "1 dB"),
    Metric.COSINE: Tolerance(_worse_cosine, "twice as far from 1"),
    Metric.MAX_ERROR: Tolerance(_worse_error, "half as large again"),
    Metric.NAN: Tolerance(lambda before, now: now - before, "one"),
    Metric.MEMORY: Tolerance(_worse_size, "1 %"),
    Metric.FILES: Tolerance(_worse_size, "1 %"),
}


def judge_figure(history: Sequence[Point], tonight: Point, metric: Metric) -> Judgement:
    """The verdict on a night's single figure, against the median of the recent nights."""
    known = [value for point in history[-RECENT:] if (value := point.value) is not None and math.isfinite(value)]
    now = tonight.value
    if not known or now is None:
        return Judgement(Verdict.NEW, "the first night with this figure")
    before = statistics.median(known)
    tolerance = TOLERANCES[metric]
    worse = tolerance.worse(before, now)
    verdict = Verdict.REGRESSION if worse >= 1 else Verdict.IMPROVEMENT if worse <= -1 else Verdict.UNCHANGED
    reason = _told(metric, before, now, tolerance) if verdict != Verdict.UNCHANGED else "as before"
    return Judgement(verdict, reason, value=now, baseline=before, baseline_nights=len(known))


def _told(metric: Metric, before: float, now: float, tolerance: Tolerance) -> str:
    unit = f" {metric.info.unit}" if metric.info.unit else ""
    return f"{now:.6g}{unit} instead of {before:.6g}{unit} ({tolerance.told} counts)"
