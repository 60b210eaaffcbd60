"""Ratios of medians with bootstrap confidence intervals, which say whether one launch is faster than another.

Source: B. Efron, "Bootstrap methods: another look at the jackknife", 1979; rounds are resampled as clusters.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

MINIMUM_ROUNDS = 5  # with fewer, an interval says nothing
_RESAMPLES = 2000

Rounds = Sequence[Sequence[float]]


@dataclasses.dataclass(frozen=True)
class Ratio:
    """Median time of a candidate over the default's, with its confidence interval. Below 1 is faster."""

    value: float
    low: float
    high: float

    @property
    def is_faster(self) -> bool:
        """The whole interval says that the candidate is faster."""
        return self.high < 1.0

    @property
    def gain_percent(self) -> float:
        """Time saved, in percent of the default's."""
        return 100.0 * (1.0 - self.value)

    @property
    def gain_interval(self) -> tuple[float, float]:
        """Confidence interval of `gain_percent`."""
        return (100.0 * (1.0 - self.high), 100.0 * (1.0 - self.low))


def ratio_of_medians(candidate: Rounds, default: Rounds, confidence: float = 0.99, seed: int = 0) -> Ratio | None:
    """Ratio of the medians of interleaved rounds; None when there are fewer than MINIMUM_ROUNDS.

    The bootstrap resamples rounds, not samples, and the same rounds for both: samples of one round share its
    disturbances. Rounds are cut to the shortest one's length.
    """
    count = min(len(candidate), len(default))
    if count < MINIMUM_ROUNDS:
        return None
    numerator, denominator = _matrix(candidate[:count]), _matrix(default[:count])
    chosen = np.random.default_rng(seed).integers(0, count, (_RESAMPLES, count))
    ratios = _medians(numerator[chosen]) / _medians(denominator[chosen])
    tail = 50.0 * (1.0 - confidence)
    low, high = np.percentile(ratios, [tail, 100.0 - tail])
    value = np.median(numerator) / np.median(denominator)
    return Ratio(float(value), float(low), float(high))


def _matrix(rounds: Rounds) -> npt.NDArray[np.float64]:
    length = min(len(samples) for samples in rounds)
    return np.array([list(samples)[:length] for samples in rounds], np.float64)


def _medians(resampled: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    return np.asarray(np.median(resampled.reshape(len(resampled), -1), axis=1))
