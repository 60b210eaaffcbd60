"""Compares two groups of measurements: is the second larger, by how much, and how sure is that?

What was measured in pairs is compared by pairs (`statistics/signed_ranks.py`), so that a drift of the unit, which moves
both of a pair, hides nothing. For groups that were measured apart there is Mann-Whitney's test (H. B. Mann and D. R.
Whitney, 1947), which needs no distribution; the ratio of medians and its interval are Hodges and Lehmann's estimate of
the shift between the logarithms (1963); the effect is Cliff's delta (1993).
"""

import dataclasses
import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from runtime.statistics import signed_ranks

Array = npt.NDArray[np.float64]
CONFIDENCE = 0.95


@dataclasses.dataclass(frozen=True)
class SampleComparison:
    """The second group over the first.

    `ratio` of the medians with its 95 % interval; `p_value`, two-sided; `effect` from -1 to 1: how much more often a
    measurement of the second group is the larger one of a pair than the smaller.
    """

    ratio: float
    low: float
    high: float
    p_value: float
    effect: float


def compare_samples(before: Sequence[float], after: Sequence[float]) -> SampleComparison | None:
    """Compares independent measurements (blocks, not rounds of one block); None where a group has no positive figure.

    With fewer than four a side the interval is as wide as the measurements themselves.
    """
    first, second = logarithms(before), logarithms(after)
    if not len(first) or not len(second):
        return None
    shifts = np.sort(np.subtract.outer(second, first).ravel())
    low, high = _interval(shifts, len(first), len(second))
    from scipy import stats  # takes longer to import than the rest of this package

    test = stats.mannwhitneyu(second, first, alternative="two-sided")
    effect = float(np.mean(np.sign(shifts)))
    return SampleComparison(
        math.exp(float(np.median(shifts))), math.exp(low), math.exp(high), float(test.pvalue), effect
    )


def compare_pairs(before: Sequence[float], after: Sequence[float]) -> SampleComparison | None:
    """Compares measurements that were made in pairs; None where there is no pair of positive figures.

    `effect`: how much more often the second of a pair is the larger one than the smaller.
    """
    pairs = np.asarray([before, after], np.float64)
    first, second = pairs[:, np.all(np.isfinite(pairs) & (pairs > 0), axis=0)]
    if not len(first):
        return None
    found = signed_ranks.paired_ratio(first, second)
    return SampleComparison(found.value, found.low, found.high, found.chance, float(np.mean(np.sign(second - first))))


def logarithms(values: Sequence[float]) -> Array:
    """Natural logarithms of the values that are positive and finite."""
    numbers = np.asarray(values, np.float64)
    return np.asarray(np.log(numbers[np.isfinite(numbers) & (numbers > 0)]))


def _interval(shifts: Array, first: int, second: int) -> tuple[float, float]:
    """Moses' confidence interval of the shift: order statistics of the pairwise shifts."""
    from scipy import special  # takes long to import, for most commands in vain

    spread = math.sqrt(first * second * (first + second + 1) / 12)
    inner = math.floor(first * second / 2 - special.ndtri((1 + CONFIDENCE) / 2) * spread)
    inner = min(max(inner, 0), (len(shifts) - 1) // 2)
    return float(shifts[inner]), float(shifts[len(shifts) - 1 - inner])
