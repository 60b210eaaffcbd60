"""The history of a series: the nights that can be compared with each other, as arrays of logarithms."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from collections.abc import Sequence

import numpy as np

from farm.decision.level_shifts import LevelShift, find_level_shifts
from farm.decision.noise import Array, NoiseModel, fit_noise, trimmed_level
from farm.decision.rules import Rules
from farm.rows.series import Point, trimmed_mean
from farm.rows.status import Status

KNOWN_TIMES = 3
MODEL_WINDOWS = 2  # windows of nights that the noise is estimated from


@dataclasses.dataclass(frozen=True)
class SeriesHistory:
    """Comparable nights, oldest first.

    Attributes:
        levels: logarithms of their figures.
        counts: how many measurements they have.
        variances: of the logarithms of their measurements; NaN where there is a single one.
        has_spoiled: whether the device state spoiled measurements of any of these nights or of one between them.
    """

    points: tuple[Point, ...] = ()
    levels: Array = dataclasses.field(default_factory=lambda: np.empty(0))
    counts: Array = dataclasses.field(default_factory=lambda: np.empty(0))
    variances: Array = dataclasses.field(default_factory=lambda: np.empty(0))
    has_spoiled: bool = False

    @classmethod
    def of(cls, history: Sequence[Point], identity: str) -> SeriesHistory:
        """The nights with a figure of one piece of hardware, since it was last exchanged."""
        since = since_hardware_change(history, identity)
        points = tuple(point for point in since if has_figure(point))
        levels, counts, variances = np.array([_summary(point) for point in points], np.float64).reshape(-1, 3).T
        return cls(points, levels, counts, variances, any(point.spoiled for point in since))

    def with_night(self, point: Point) -> SeriesHistory:
        """The history with one more night of the same hardware."""
        heats = self.has_spoiled or bool(point.spoiled)
        if not has_figure(point):
            return dataclasses.replace(self, has_spoiled=heats)
        level, count, variance = _summary(point)
        return SeriesHistory(
            (*self.points, point),
            np.append(self.levels, level),
            np.append(self.counts, count),
            np.append(self.variances, variance),
            heats,
        )

    def __len__(self) -> int:
        return len(self.points)

    @functools.cached_property
    def level_shifts(self) -> Sequence[LevelShift]:
        """Level shifts of the history."""
        most = np.median(self.counts) if len(self) else 1.0
        return find_level_shifts(self.levels, np.minimum(self.counts, most))

    def start(self, rules: Rules) -> int:
        """Index of the baseline's first night: the last level shift that is older than every possible onset."""
        return max((step.at for step in self.level_shifts if step.at <= len(self) - max(rules.onset_nights)), default=0)

    def model(self, rules: Rules, drifts: bool = False) -> NoiseModel:
        """The noise of the newest nights, level shifts removed; the last nights, which may be changed, are left out."""
        judged = max(rules.onset_nights) - 1
        last = len(self) - judged if len(self) >= KNOWN_TIMES * judged else len(self)
        first = max(last - MODEL_WINDOWS * rules.window_nights, 0)
        edges = [first, *(step.at for step in self.level_shifts if first < step.at < last), last]
        flat = np.concatenate([part - trimmed_level(part) for part in np.split(self.levels, edges)[1:-1]])
        return fit_noise(flat, self.counts[first:last], self.variances[first:last], rules, drifts)


def since_hardware_change(history: Sequence[Point], identity: str) -> list[Point]:
    """The nights of one piece of hardware, since another was exchanged for it."""
    return list(itertools.takewhile(lambda point: _may_be(point, identity), reversed(history)))[::-1]


def has_figure(point: Point) -> bool:
    """Whether a night has a figure that can be compared."""
    is_measured = point.status in (Status.OK, Status.WRONG_RESULT)
    return is_measured and any(0 < value < math.inf for value in point.runs)


def level_of(point: Point) -> float:
    """Logarithm of a night's figure."""
    return _summary(point)[0]


def _may_be(point: Point, identity: str) -> bool:
    return point.identity == identity or not (point.identity and identity)


def _summary(point: Point) -> tuple[float, int, float]:
    """Level, count and variance; plain Python, as it is quicker than NumPy on few values."""
    values = [math.log(value) for value in point.runs if 0 < value < math.inf]
    mean, count = sum(values) / len(values), len(values)
    variance = sum((value - mean) ** 2 for value in values) / (count - 1) if count > 1 else math.nan
    return trimmed_mean(values), count, variance
