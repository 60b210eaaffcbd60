"""The history of a series: the nights that can be compared with each other, as arrays of logarithms."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
import statistics
from collections.abc import Sequence

import numpy as np

from farm.decision.level_shifts import LevelShift, find_level_shifts
from farm.decision.noise import MAD_TO_SIGMA, NoiseModel, fit_noise, trimmed_level
from farm.decision.precedents import Moves, moves
from farm.decision.rules import Rules
from farm.rows.series import Point, trimmed_mean
from farm.rows.status import Status
from runtime.statistics.medians import Array, means, median, trimmed_means

MEASURED = (str(Status.OK), str(Status.WRONG_RESULT))  # texts are compared quicker than members
KNOWN_TIMES = 3
ORDER_NIGHTS = 20  # of the level before, and of effects that count
KNOWN_EFFECTS, ORDER_SCORE = 4, 3.0
MEDIAN_LOSS = 1.25  # standard error of a median over that of a mean, of a normal distribution
MANY_NIGHTS = 16  # are summarised quicker as arrays
MODEL_WINDOWS = 2  # windows of nights that the noise is estimated from


@dataclasses.dataclass(frozen=True)
class SeriesHistory:
    """Comparable nights, oldest first.

    Attributes:
        levels: logarithms of their figures.
        counts: how many measurements they have.
        variances: of the logarithms of their measurements; NaN where there is a single one.
        order_effects: by how much further measurements were slower than the level before, in nights that had some.
        has_spoiled: whether the device state spoiled measurements of any of these nights or of one between them.
    """

    points: tuple[Point, ...] = ()
    levels: Array = dataclasses.field(default_factory=lambda: np.empty(0))
    counts: Array = dataclasses.field(default_factory=lambda: np.empty(0))
    variances: Array = dataclasses.field(default_factory=lambda: np.empty(0))
    has_spoiled: bool = False
    order_effects: tuple[float, ...] = ()

    @classmethod
    def of(cls, history: Sequence[Point], identity: str) -> SeriesHistory:
        """The nights with a figure of one piece of hardware, since it was last exchanged."""
        nights, known = cls(), since_hardware_change(history, identity)
        if not any(point.reruns for point in known):
            return nights._with_nights(known)
        for _, alike in itertools.groupby(known, lambda point: bool(point.reruns)):
            nights = nights._with_nights(list(alike))
        return nights

    def with_night(self, point: Point) -> SeriesHistory:
        """The history with one more night of the same hardware."""
        return self._with_nights([point])

    def _with_nights(self, points: Sequence[Point]) -> SeriesHistory:
        """With some more: at once where they have no further measurements, which are seen by those of nights before."""
        if len(points) > 1 and points[0].reruns:
            return functools.reduce(SeriesHistory.with_night, points, self)
        heats = self.has_spoiled or any(point.spoiled for point in points)
        measured = [point for point in points if has_figure(point)]
        if not measured:
            return dataclasses.replace(self, has_spoiled=heats)
        has_further = bool(measured[0].reruns)
        kept = map(self.measured, measured) if has_further else measured
        levels, counts, variances = _summaries([point.runs for point in kept])
        effects = self._order_effect(measured[0]) if has_further else ()
        return dataclasses.replace(
            self,
            points=(*self.points, *measured),
            levels=np.append(self.levels, levels),
            counts=np.append(self.counts, counts),
            variances=np.append(self.variances, variances),
            has_spoiled=heats,
            order_effects=(*self.order_effects, *effects),
        )

    def corrected(self, point: Point) -> Point:
        """The night without what its further measurements are slower for coming later; as known so far."""
        if not point.reruns:
            return point
        first = len(point.runs) - point.reruns
        slower = math.exp(self.order_effect)
        return point.with_members(runs=(*point.runs[:first], *(run / slower for run in point.runs[first:])))

    @functools.cached_property
    def order_effect(self) -> float:
        """By how much further measurements are slower, as a logarithm; 0 unless it is sure."""
        effects = np.array(self.order_effects[-ORDER_NIGHTS:])
        if len(effects) < KNOWN_EFFECTS:
            return 0.0
        middle = median(effects)
        error = MEDIAN_LOSS * MAD_TO_SIGMA * median(np.abs(effects - middle)) / math.sqrt(len(effects))
        return middle if abs(middle) > ORDER_SCORE * error else 0.0

    def figure(self, point: Point) -> tuple[float, float]:
        """Level and number of measurements that the history would keep of a night."""
        level, count, _ = _summary(self.measured(point).runs)
        return level, count

    def measured(self, point: Point) -> Point:
        """The night as the history keeps it: without further measurements until their order effect is known."""
        if not point.reruns or len(self.order_effects) >= KNOWN_EFFECTS or not has_figure(_first(point)):
            return self.corrected(point)
        return _first(point)

    def _order_effect(self, point: Point) -> list[float]:
        """Against the level before, as it is the first measurements that led to these: they are odd by selection."""
        later = [math.log(run) for run in point.runs[len(point.runs) - point.reruns :] if 0 < run < math.inf]
        if not later or not len(self):
            return []
        return [statistics.fmean(later) - median(self.levels[-ORDER_NIGHTS:])]

    def __len__(self) -> int:
        return len(self.points)

    @functools.cached_property
    def level_shifts(self) -> Sequence[LevelShift]:
        """Level shifts of the history."""
        return find_level_shifts(self.levels, np.minimum(self.counts, self.usual_count))

    @functools.cached_property
    def usual_count(self) -> float:
        """How many measurements a night mostly has."""
        return median(self.counts) if len(self) else 1.0

    @functools.cached_property
    def flat_levels(self) -> Array:
        """Levels less that of their segment between level shifts."""
        edges = [0, *(step.at for step in self.level_shifts), len(self)]
        parts = np.split(self.levels, edges)[1:-1]
        return np.concatenate([part - trimmed_level(part) for part in parts if len(part)] or [np.empty(0)])

    @property
    def restless_shifts(self) -> Array:
        """Changes of the level that the series makes by itself: all but the largest, which may have been software."""
        return np.sort(np.abs([step.change for step in self.level_shifts]))[:-1]

    def moves(self, nights: int) -> Moves | None:
        """How far the last so many nights moved, all through the history."""
        if nights not in self._moves:
            self._moves[nights] = moves(self.flat_levels, nights)
        return self._moves[nights]

    @functools.cached_property
    def _moves(self) -> dict[int, Moves | None]:
        return {}

    def start(self, rules: Rules) -> int:
        """Index of the baseline's first night: the last level shift that is older than every possible onset."""
        return max((step.at for step in self.level_shifts if step.at <= len(self) - max(rules.onset_nights)), default=0)

    def model(self, rules: Rules, drifts: bool = False) -> NoiseModel:
        """The noise of the newest nights, level shifts removed; the last nights, which may be changed, are left out."""
        if (rules, drifts) not in self._models:  # tonight is judged again as its further measurements come in
            self._models[rules, drifts] = self._fitted(rules, drifts)
        return self._models[rules, drifts]

    @functools.cached_property
    def _models(self) -> dict[tuple[Rules, bool], NoiseModel]:
        return {}

    def _fitted(self, rules: Rules, drifts: bool) -> NoiseModel:
        judged = max(rules.onset_nights) - 1
        last = len(self) - judged if len(self) >= KNOWN_TIMES * judged else len(self)
        first = max(last - MODEL_WINDOWS * rules.window_nights, 0)
        edges = [first, *(step.at for step in self.level_shifts if first < step.at < last), last]
        flat = np.concatenate([part - trimmed_level(part) for part in np.split(self.levels, edges)[1:-1]])
        return fit_noise(flat, self.counts[first:last], self.variances[first:last], rules, drifts)


def since_hardware_change(history: Sequence[Point], identity: str) -> list[Point]:
    """The nights of one piece of hardware, since another was exchanged for it."""
    if not identity or {point.identity for point in history} <= {identity, ""}:
        return list(history)
    others = (place for place in reversed(range(len(history))) if not _may_be(history[place], identity))
    return list(history[next(others, -1) + 1 :])


def has_figure(point: Point) -> bool:
    """Whether a night has a figure that can be compared."""
    return is_measured(point) and is_any_figure(point.runs)


def is_measured(point: Point) -> bool:
    """Whether a night's model ran to its end."""
    return point.status in MEASURED


def is_any_figure(runs: Sequence[float]) -> bool:
    """Whether any of some measurements is one that can be compared."""
    return bool(runs) and (0 < runs[0] < math.inf or any(0 < value < math.inf for value in runs))


def _first(point: Point) -> Point:
    """A night's first measurements alone."""
    first = len(point.runs) - point.reruns
    return point.with_members(runs=point.runs[:first], arms=point.arms[:first], reruns=0)


def level_of(point: Point) -> float:
    """Logarithm of a night's figure."""
    return _summary(point.runs)[0]


def _may_be(point: Point, identity: str) -> bool:
    return not (identity and point.identity) or point.identity == identity


def _summary(runs: Sequence[float]) -> tuple[float, int, float]:
    """Level, count and variance; plain Python, as it is quicker than NumPy on few values."""
    values = [math.log(value) for value in runs if 0 < value < math.inf]
    mean, count = sum(values) / len(values), len(values)
    variance = sum((value - mean) ** 2 for value in values) / (count - 1) if count > 1 else math.nan
    return trimmed_mean(values), count, variance


def _summaries(nights: Sequence[Sequence[float]]) -> tuple[Array, Array, Array]:
    """The same of each night."""
    if len(nights) < MANY_NIGHTS:
        singly = np.array(list(map(_summary, nights)), np.float64)
        return singly[:, 0], singly[:, 1], singly[:, 2]
    values = np.array(list(itertools.zip_longest(*nights, fillvalue=math.nan)), np.float64).T
    values = np.sort(np.log(np.where((values > 0) & (values < math.inf), values, math.nan)), axis=1)  # NaN come last
    counts = np.isfinite(values).sum(axis=1)
    known = np.arange(values.shape[1]) < counts[:, None]
    squares = np.where(known, (values - means(values, known)[:, None]) ** 2, 0.0).sum(axis=1)
    return trimmed_means(values, counts), counts, np.where(counts > 1, squares / np.maximum(counts - 1, 1), math.nan)
