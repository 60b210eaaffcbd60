"""Level shifts in a series' history: binary segmentation by the weighted step that fits best.

The split with the largest two-sample t statistic is accepted when that is beyond a threshold, and both sides are
split again (A. J. Scott and M. Knott, "A cluster analysis method for grouping means in the analysis of variance",
Biometrics 30, 1974; consistency: L. Vostrikova, "Detecting 'disorder' in multidimensional random processes", 1981).
A level has at least five nights: where the best split leaves fewer, these are set aside. Nights are weighted by their
number of measurements. Outliers are winsorised, and drifts that last some nights widen the threshold.
"""

import dataclasses
import math

import numpy as np

from runtime.statistics.medians import Array, median

LEAST_NIGHTS = 5  # on either side
THRESHOLD = 5.0  # standard errors
SMALLEST = math.log(1.015)
MAD_TO_SIGMA = 1.4826
WINSOR_LIMIT = 3.0  # standard deviations
MOST_LASTING = 3.0


@dataclasses.dataclass(frozen=True)
class LevelShift:
    """A level shift: index `at` of the first night after it, change of the logarithm, and its standard error."""

    at: int
    change: float
    error: float


def find_level_shifts(levels: Array, weights: Array) -> list[LevelShift]:
    """Finds the level shifts of a series of logarithms, oldest first; each night has a weight."""
    if len(levels) < 2 * LEAST_NIGHTS:
        return []
    sigma = _sigma(levels)
    cuts: list[int] = []
    _split(levels, weights, sigma, 0, len(levels), cuts)
    edges = [0, *sorted(cuts), len(levels)]
    return [_step(levels, weights, sigma, *edges[at : at + 3]) for at in range(len(edges) - 2)]


def _split(levels: Array, weights: Array, sigma: float, start: int, end: int, cuts: list[int]) -> None:
    if end - start < 2 * LEAST_NIGHTS:
        return
    part = _winsorised_locally(levels[start:end], sigma)
    at, score, change = _best(part, weights[start:end], sigma)
    if score < THRESHOLD * _lasting(part, at) or abs(change) < SMALLEST:
        return
    is_whole = LEAST_NIGHTS <= at <= len(part) - LEAST_NIGHTS
    if is_whole:
        cuts.append(start + at)
    if is_whole or at > len(part) // 2:  # what is split off is too short to be a level of its own
        _split(levels, weights, sigma, start, start + at, cuts)
    if is_whole or at <= len(part) // 2:
        _split(levels, weights, sigma, start + at, end, cuts)


def _best(levels: Array, weights: Array, sigma: float) -> tuple[int, float, float]:
    """First night after the best split, its t statistic, and its change."""
    before, sums = np.cumsum(weights)[:-1], np.cumsum(weights * levels)[:-1]
    after, total = weights.sum() - before, float((weights * levels).sum())
    change = (total - sums) / after - sums / before
    mean_weight = float(np.mean(weights))
    score = np.abs(change) / (sigma * np.sqrt(mean_weight / before + mean_weight / after))
    at = int(np.argmax(score))
    return at + 1, float(score[at]), float(change[at])


def _step(levels: Array, weights: Array, sigma: float, start: int, at: int, end: int) -> LevelShift:
    part = _winsorised_locally(levels[start:end], sigma)
    before, after = part[: at - start], part[at - start :]
    change = float(np.average(after, weights=weights[at:end]) - np.average(before, weights=weights[start:at]))
    lasting = _lasting(part, at - start)
    return LevelShift(at, change, sigma * lasting * math.sqrt(1 / len(before) + 1 / len(after)))


def _sigma(levels: Array) -> float:
    """Standard deviation of a night, from differences of neighbouring nights, which level shifts do not widen."""
    gaps = [np.abs(levels[gap:] - levels[:-gap]) for gap in (1, 2, 3) if gap < len(levels)]
    estimates = [MAD_TO_SIGMA * median(gap_sizes) / math.sqrt(2) for gap_sizes in gaps]
    return max(*estimates, 1e-6) if estimates else 1e-6


def _winsorised_locally(levels: Array, sigma: float) -> Array:
    """Clips each night to some standard deviations round the median of its neighbours, so that a spike is no shift."""
    padded = np.concatenate([levels[:1], levels[:1], levels, levels[-1:], levels[-1:]])
    middle = np.sort(np.stack([padded[at : at + len(levels)] for at in range(5)]), axis=0)[2]
    return np.clip(levels, middle - WINSOR_LIMIT * sigma, middle + WINSOR_LIMIT * sigma)


def _lasting(levels: Array, at: int) -> float:
    """By how much drifts that last widen the error of a mean: sqrt((1 + r) / (1 - r)), r of both sides of the split."""
    rest = np.concatenate([levels[:at] - levels[:at].mean(), levels[at:] - levels[at:].mean()])
    variance = float(np.mean(rest**2))
    if variance <= 0:
        return 1.0
    correlation = min(max(float(np.mean(rest[1:] * rest[:-1])) / variance, 0.0), 0.8)
    return min(math.sqrt((1 + correlation) / (1 - correlation)), MOST_LASTING)
