"""Metrics that are nearly or exactly the same each night: accuracy, memory, sizes. Measuring again changes nothing."""

from __future__ import annotations

import dataclasses
import itertools
import math
import statistics
from collections.abc import Callable, Sequence

from farm.decision.judgement import Judgement, Verdict
from farm.rows.series import Metric, Nature, Point

LEVEL_NIGHTS = 5
SPREAD_NIGHTS = 30
SPREADS = 3 * 1.4826 / math.sqrt(2)  # of a normal distribution's differences


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
    return math.log((max(now, 0) + floor) / (max(before, 0) + floor)) / math.log(1.5)


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
    """The verdict on a night's single figure, against the level of the last nights and what they vary by."""
    known = [value for point in history[-SPREAD_NIGHTS:] if (value := _figure(point)) is not None]
    now = _figure(tonight)
    if not known or now is None:
        return Judgement(Verdict.NEW, "the first night with this figure", value=now)
    level_of = known[-LEVEL_NIGHTS:] if metric.info.nature == Nature.QUALITY else known[-1:]
    before, tolerance = statistics.median(level_of), TOLERANCES[metric]
    worse = tolerance.worse(before, now)
    most = 1 + (_spread(known, tolerance) if metric.info.nature == Nature.QUALITY else 0.0)
    verdict = Verdict.REGRESSION if worse >= most else Verdict.IMPROVEMENT if worse <= -most else Verdict.UNCHANGED
    reason = _told(metric, before, now, tolerance) if verdict != Verdict.UNCHANGED else "as before"
    return Judgement(verdict, reason, value=now, baseline=before, baseline_nights=len(level_of))


def _figure(point: Point) -> float | None:
    """Of the measurements that are numbers."""
    numbers = [value for value in point.runs if math.isfinite(value)]
    return statistics.median(numbers) if numbers else None


def _spread(known: Sequence[float], tolerance: Tolerance) -> float:
    """What the figure varies by anyway: three standard deviations, by the median distance of successive nights."""
    moved = [abs(tolerance.worse(one, other)) for one, other in itertools.pairwise(known)]
    return SPREADS * statistics.median(moved) if moved else 0.0


def _told(metric: Metric, before: float, now: float, tolerance: Tolerance) -> str:
    unit = f" {metric.info.unit}" if metric.info.unit else ""
    return f"{now:.6g}{unit} instead of {before:.6g}{unit} ({tolerance.told} counts)"
