"""What a series varies by when nothing changes: within a night, from night to night, and how long a drift lasts.

The logarithm of a measurement is the series' level + the night's own deviation + that of the measurement. A night's
deviation is shared by all its measurements (room, battery, other work), so that measuring again does not average it
out; it may last into the next nights. A random-effects model with one-way layout (S. R. Searle, G. Casella,
C. E. McCulloch, "Variance Components", 1992), estimated robustly.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from scipy import stats

from farm.decision.judgement import Noise
from farm.decision.rules import Rules

Array = npt.NDArray[np.float64]

MAD_TO_SIGMA = 1.4826  # of a normal distribution
TRIMMED = 0.1  # of the nights on either side
LEAST_PERCENT = 0.1  # no clock and no phone is steadier than that
BETWEEN_ODDS = 0.975  # from here night-to-night noise is taken to be there
MOST_CORRELATION = 0.8


@dataclasses.dataclass(frozen=True)
class Model:
    """Variances of logarithms; `correlation` is that of the deviations of successive nights, `degrees` of freedom."""

    within: float
    between: float
    correlation: float
    degrees: float

    @property
    def noise(self) -> Noise:
        """The same in percent."""
        return Noise(100 * math.sqrt(self.within), 100 * math.sqrt(self.between))

    def variance(self, counts: Sequence[int]) -> float:
        """Of the mean over all measurements of some successive nights, so many each."""
        nights, total = len(counts), sum(counts)
        shares = [count / total for count in counts]
        between = sum(
            one * other * self.correlation ** abs(here - there)
            for here, one in enumerate(shares)
            for there, other in enumerate(shares)
        )
        return self.between * between + self.within / total if nights else math.inf

    def baseline_variance(self, nights: int, measurements: float) -> float:
        """Of the mean of many nights, with so many measurements each."""
        lasting = (1 + self.correlation) / (1 - self.correlation)
        return (self.between * lasting + self.within / measurements) / nights


def fit(levels: Array, residuals: Sequence[Array], rules: Rules) -> Model:
    """The model of a stretch of nights without a change.

    Args:
        levels: logarithm of each night's figure, less the level of its stretch.
        residuals: logarithms of each night's measurements, less their mean.
    """
    least = (LEAST_PERCENT / 100) ** 2
    within, freedom = _within(residuals)
    count = float(np.median([len(each) for each in residuals]))
    seen = _spread(levels) ** 2 * len(levels) / max(len(levels) - 1, 1)
    expected = within / count
    prior = expected + (rules.prior_percent / 100) ** 2
    degrees = len(levels) - 1 + rules.prior_nights
    total = ((len(levels) - 1) * seen + rules.prior_nights * prior) / degrees
    excess = total - expected
    is_there = freedom == 0 or total > expected * stats.f.ppf(BETWEEN_ODDS, degrees, freedom)
    between = excess if is_there else 0.0
    correlation = _correlation(levels, total, between) if is_there else 0.0
    return Model(max(within, least), max(between, 0.0), correlation, degrees if is_there else degrees + freedom)


def centre(levels: Array) -> float:
    """The level of a stretch, which a few odd nights do not move."""
    return float(stats.trim_mean(levels, TRIMMED)) if len(levels) else math.nan


def _within(residuals: Sequence[Array]) -> tuple[float, int]:
    """Variance of measurements within a night: the median over the nights, and its degrees of freedom."""
    known = [(float(np.sum(each**2)) / (len(each) - 1), len(each) - 1) for each in residuals if len(each) > 1]
    if not known:
        return 0.0, 0
    freedom = int(np.median([degrees for _, degrees in known]))
    # The median of a chi-square variable lies below its mean, the more so the fewer degrees it has.
    shrunk = stats.chi2.median(freedom) / freedom
    return float(np.median([variance for variance, _ in known])) / shrunk, sum(degrees for _, degrees in known)


def _spread(levels: Array) -> float:
    """Robust standard deviation: of the bulk, but not less than half of what the plain one says."""
    bulk = MAD_TO_SIGMA * float(np.median(np.abs(levels - np.median(levels))))
    trimmed = np.sort(levels)[int(TRIMMED * len(levels)) : len(levels) - int(TRIMMED * len(levels))]
    return max(bulk, float(np.std(trimmed))) if len(levels) else 0.0


def _correlation(levels: Array, total: float, between: float) -> float:
    """Of the nights' own deviations, from that of successive nights' figures."""
    if len(levels) < 10 or not between:
        return 0.5  # unknown: half of it may last
    bounded = np.clip(levels, -3 * math.sqrt(total), 3 * math.sqrt(total))
    bounded = bounded - bounded.mean()
    covariance = float(np.mean(bounded[1:] * bounded[:-1]))
    return min(max(covariance / between, 0.0), MOST_CORRELATION)
