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
from farm.decision.noise import MAD_TO_SIGMA, WINSOR_LIMIT, NoiseModel, fit_noise, trimmed_level
from farm.decision.rules import Rules
from farm.rows.series import Point, trimmed_mean
from farm.rows.status import Status
from runtime.statistics.medians import Array, means, median, row_medians, trimmed_means

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


# Says whether a series has moved as far before, for whatever reason: then it may do so again.
#
# Past moves are told by the nights alone, without a model: the mean of some nights against the median of the month
# before them, in standard deviations that follow the recent past (exponentially weighted, as in RiskMetrics, 1996).
# So nights that are hot, clocks that have two states and levels that a reboot draws anew are known once they were
# seen.
HALF_LIFE_NIGHTS = 15.0
BASELINE_NIGHTS, LEAST_BASELINE = 30, 5
LEAST_SIGMA = 0.001


@dataclasses.dataclass(frozen=True)
class Moves:
    """How far a series moved, night by night, in standard deviations.

    Attributes:
        sizes: of each night that has a baseline; the mean of its last `nights` counts.
        sigma: tonight's standard deviation, of logarithms.
    """

    nights: int
    sizes: Array
    sigma: float

    def has_precedent(self, change: float, shifts: Array, share: float, left_out: int) -> bool:
        """Whether the series has moved by a share of a change before.

        Args:
            change: of the logarithm.
            shifts: changes of the series' level in the past, of logarithms.
            left_out: so many newest nights may be changed already.
        """
        past = np.abs(self.sizes[: max(len(self.sizes) - left_out, 0)])
        known = max(float(np.max(past, initial=0.0)) * self.sigma, float(np.max(np.abs(shifts), initial=0.0)))
        return known >= share * abs(change)


def moves(levels: Array, nights: int) -> Moves | None:
    """The moves of so many nights; None as long as there are too few. `levels`: logarithms of nights' figures."""
    apart, singles = distances(levels, nights, nights), distances(levels, 1, 1)
    is_known = np.isfinite(apart)
    if not is_known.any():
        return None
    sigma = max(MAD_TO_SIGMA * median(np.abs(apart[is_known])), LEAST_SIGMA)
    recent = _recent(singles[np.isfinite(singles)])
    return Moves(nights, apart[is_known] / (sigma * recent[: is_known.sum()]), sigma * float(recent[-1]))


def _recent(singles: Array) -> Array:
    """For each night, and the one to come, by what factor the nights before it varied more than usual."""
    sigma = max(MAD_TO_SIGMA * median(np.abs(singles)), LEAST_SIGMA)
    kept, square, squares = 0.5 ** (1 / HALF_LIFE_NIGHTS), 1.0, [1.0]
    for value in np.minimum((singles / sigma) ** 2, WINSOR_LIMIT**2).tolist():
        square = kept * square + (1 - kept) * value
        squares.append(square)
    return np.sqrt(squares)


def past_values(values: Array, nights: int) -> Array:
    """Of each place, and of the one to come, so many values before it; NaN where the series had not begun."""
    return np.lib.stride_tricks.sliding_window_view(np.concatenate([np.full(nights, np.nan), values]), nights)


def distances(levels: Array, nights: int, behind: int) -> Array:
    """Of each night: how far the mean of the last nights lies from the median of the month that ends `behind` ago.

    NaN where that has fewer than five nights. `levels`: logarithms of nights' figures, oldest first.
    """
    sizes = np.full(len(levels), np.nan)
    first = LEAST_BASELINE + behind - 1
    if len(levels) > first:
        past = past_values(levels, BASELINE_NIGHTS)[first + 1 - behind : len(levels) + 1 - behind]
        means = np.convolve(levels, np.full(nights, 1 / nights), "valid")[first + 1 - nights :]
        sizes[first:] = means - row_medians(past)
    return sizes
