"""Judges metrics that are no times: accuracy, memory, sizes. They hardly vary, so measuring again tells nothing new."""

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
    """How much worse a figure may become.

    Attributes:
        worse: (before, now) -> by how much `now` is worse (negative: better), where 1 is the limit.
        description: the limit in words.
    """

    worse: Callable[[float, float], float]
    description: str


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


def judge_untimed(history: Sequence[Point], tonight: Point, metric: Metric) -> Judgement:
    """The verdict on a night's single figure, against the level of the last nights and what they vary by."""
    past_values = [value for point in history[-SPREAD_NIGHTS:] if (value := _figure(point)) is not None]
    now = _figure(tonight)
    if not past_values or now is None:
        return Judgement(Verdict.NEW, "the first night with this figure", value=now)
    level_of = past_values[-LEVEL_NIGHTS:] if metric.info.nature == Nature.QUALITY else past_values[-1:]
    before, tolerance = statistics.median(level_of), TOLERANCES[metric]
    worse = tolerance.worse(before, now)
    most = 1 + (_spread(past_values, tolerance) if metric.info.nature == Nature.QUALITY else 0.0)
    verdict = Verdict.REGRESSION if worse >= most else Verdict.IMPROVEMENT if worse <= -most else Verdict.UNCHANGED
    reason = _change_text(metric, before, now, tolerance) if verdict != Verdict.UNCHANGED else "as before"
    return Judgement(verdict, reason, value=now, baseline=before, baseline_nights=len(level_of))


def _figure(point: Point) -> float | None:
    """Of the measurements that are numbers."""
    numbers = [value for value in point.runs if math.isfinite(value)]
    return statistics.median(numbers) if numbers else None


def _spread(past_values: Sequence[float], tolerance: Tolerance) -> float:
    """The figure's usual variation: three standard deviations, estimated from the median step between nights."""
    moved = [abs(tolerance.worse(one, other)) for one, other in itertools.pairwise(past_values)]
    return SPREADS * statistics.median(moved) if moved else 0.0


def _change_text(metric: Metric, before: float, now: float, tolerance: Tolerance) -> str:
    unit = f" {metric.info.unit}" if metric.info.unit else ""
    return f"{now:.6g}{unit} instead of {before:.6g}{unit} ({tolerance.description} counts)"
