"""Wilcoxon's signed ranks (1945): what pairs say, exactly, however heavy the tails of their noise.

Without a difference the logarithm of a pair's ratio is as likely positive as negative; nothing else is assumed.
"""

import dataclasses
import functools
import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
MOST_EXACT = 200


@dataclasses.dataclass(frozen=True)
class PairedRatio:
    """The second of each pair over the first: the middle, its interval, and the chance that equals differ so much."""

    value: float
    low: float
    high: float
    chance: float


def paired_ratio(first: Sequence[float], second: Sequence[float], confidence: float = 0.95) -> PairedRatio:
    """Compares times, all above zero, that were measured in pairs; what moves both of a pair tells nothing."""
    logs = np.log(np.asarray(second, np.float64) / np.asarray(first, np.float64))
    low, value, high = map(math.exp, shift(logs, confidence))
    return PairedRatio(value, low, high, chance(logs))


def least_pairs(error: float) -> int:
    """The fewest pairs whose chance can fall below an error."""
    return math.floor(1 - math.log2(error)) + 1


def shift(values: Array, confidence: float = 0.95) -> tuple[float, float, float]:
    """Hodges and Lehmann's estimate (1963) of the middle, between the ends of its interval.

    The interval is the whole range where the values are too few for one.
    """
    first, second = _pairs(len(values))
    averages = np.sort((values[first] + values[second]) / 2)
    outside = _outside(len(values), (1 - confidence) / 2)
    low, high = averages[outside], averages[len(averages) - 1 - outside]
    return float(low), float(np.median(averages)), float(high)


def chance(values: Array) -> float:
    """How likely values round zero look at least so different from it (two-sided).

    Equal sizes share their ranks, zeros tell nothing.
    """
    sizes = np.abs(values[values != 0])
    if not len(sizes):
        return 1.0
    ordered = np.sort(sizes)
    ranks = np.searchsorted(ordered, sizes, "left") + np.searchsorted(ordered, sizes, "right") + 1.0
    positive = float(np.sum(ranks[values[values != 0] > 0])) / 2
    total = len(sizes) * (len(sizes) + 1) / 2
    return min(2 * share_at_most(len(sizes), math.ceil(min(positive, total - positive))), 1.0)


def share_at_most(count: int, rank_sum: int) -> float:
    """Share of all signs of `count` ranks whose positive ranks sum to at most this."""
    shares = _cumulative_shares(count)
    return float(shares[min(rank_sum, len(shares) - 1)])


@functools.cache
def _outside(count: int, tail: float) -> int:
    """How many averages may lie outside of the interval on each side; 0 where `count` is too small for the tail."""
    return max(int(np.searchsorted(_cumulative_shares(count), tail, side="right")) - 1, 0)


@functools.cache
def _cumulative_shares(count: int) -> Array:
    """By sum of the positive ranks: exact for few ranks, normal for so many that nobody sees the difference."""
    if count > MOST_EXACT:
        from scipy import special  # few callers have so many

        middle, spread = count * (count + 1) / 4, math.sqrt(count * (count + 1) * (2 * count + 1) / 24)
        return np.asarray(special.ndtr((np.arange(2 * middle + 1) + 0.5 - middle) / spread))
    ways = np.ones(1)
    for rank in range(1, count + 1):
        ways = np.concatenate([ways, np.zeros(rank)]) + np.concatenate([np.zeros(rank), ways])
    return np.asarray(np.cumsum(ways) / 2.0**count)


@functools.cache
def _pairs(count: int) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    first, second = np.triu_indices(count)
    return first, second
