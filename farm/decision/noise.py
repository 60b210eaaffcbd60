"""The noise model of a series: variance within a night, from night to night, and how long a drift lasts.

The logarithm of a measurement is the series' level + the night's own deviation + that of the measurement. A night's
deviation is shared by all its measurements (room, battery, other work), so that measuring again does not average it
out, and may last into the next nights: a random-effects model (S. R. Searle, G. Casella, C. E. McCulloch, "Variance
Components", 1992) whose effects are an AR(1) process. The nights' variance and correlation are the mean over a grid,
weighted by prior and likelihood; where drifts are known to be, the variance is taken one standard deviation higher, so
that a short history does not pass for a quiet one. The likelihood is Whittle's ("Estimation and information in
stationary time series", Arkiv för Matematik 2, 1953), which needs one Fourier transform.
"""

import dataclasses
import functools
import math

import numpy as np

from farm.decision.judgement import Noise
from farm.decision.rules import Rules
from runtime.statistics.medians import Array, median

MAD_TO_SIGMA = 1.4826  # of a normal distribution
LEAST_VARIANCE = 0.001**2  # no clock and no phone is steadier than a tenth of a percent
TRIMMED_SHARE = 0.1  # of nights, on either side
WINSOR_LIMIT = 3.5  # standard deviations beyond which a night tells no more than that it is odd
PERCENTS = np.array([0.0, 0.2, 0.35, 0.6, 1.0, 1.4, 1.9, 2.6, 3.6, 5.0, 8.0, 12.0])
CORRELATIONS = np.array([0.0, 0.3, 0.6, 0.85])
PRIOR_NIGHTS = 4.0


@dataclasses.dataclass(frozen=True)
class NoiseModel:
    """Variances of logarithms; `correlation` is that of the deviations of successive nights.

    `nights_degrees` and `within_degrees`: degrees of freedom of the two estimates.
    """

    within: float
    between: float
    correlation: float
    nights_degrees: float
    within_degrees: float

    @property
    def noise(self) -> Noise:
        """The same in percent."""
        return Noise(100 * math.sqrt(self.within), 100 * math.sqrt(self.between))

    def degrees(self, count: float) -> float:
        """Of freedom, of the variance of a night with so many measurements (F. E. Satterthwaite, 1946)."""
        within = self.within / count
        variance_of_estimate = self.between**2 / self.nights_degrees
        variance_of_estimate += within**2 / (self.within_degrees or self.nights_degrees)
        return (self.between + within) ** 2 / variance_of_estimate if variance_of_estimate else self.nights_degrees


def fit_noise(levels: Array, counts: Array, variances: Array, rules: Rules, drifts: bool = False) -> NoiseModel:
    """Fits the noise model to nights without a change.

    Args:
        levels: logarithm of each night's figure, less the level of its segment.
        counts: how many measurements each night has.
        variances: variance of each night's logarithms; NaN where it has a single one.
        drifts: whether the unit is known to vary from night to night, be it only with its room's temperature.
    """
    within, within_degrees = _within(variances, counts)
    white = max(within * float(np.mean(1 / counts)), LEAST_VARIANCE / 4)
    between, correlation = _between(_winsorised(levels), white, rules, drifts)
    return NoiseModel(within, between, correlation, len(levels) - 1 + PRIOR_NIGHTS, within_degrees)


def trimmed_level(levels: Array) -> float:
    """The level of a segment: its mean without a tenth of the nights on either side."""
    cut = int(TRIMMED_SHARE * len(levels))
    return float(np.sort(levels)[cut : len(levels) - cut].mean())


def _within(variances: Array, counts: Array) -> tuple[float, float]:
    """Variance of measurements within a night: the median over the nights, the least where each has a single one.

    And its degrees of freedom.
    """
    is_known = np.isfinite(variances)
    if not is_known.any():
        return LEAST_VARIANCE, 0.0
    degrees = counts[is_known] - 1
    middle = median(variances[is_known])
    return max(middle / _median_share(median(degrees)), LEAST_VARIANCE), float(degrees.sum())


@functools.cache
def _median_share(degrees: float) -> float:
    """The median of a chi-square variable over its mean: the lower the fewer degrees it has."""
    from scipy import special  # takes long to import, for most commands in vain

    return float(2 * special.gammaincinv(degrees / 2, 0.5) / degrees)


def _winsorised(levels: Array) -> Array:
    most = WINSOR_LIMIT * max(MAD_TO_SIGMA * median(np.abs(levels)), LEAST_VARIANCE**0.5)
    return np.clip(levels, -most, most)


def _between(levels: Array, white: float, rules: Rules, drifts: bool) -> tuple[float, float]:
    """Variance of the nights' own deviations, and their correlation."""
    shapes, variances, correlations, weights = _grid(
        len(levels), rules.prior_percent, rules.prior_factor, rules.drift_percent * drifts
    )
    power = np.abs(np.fft.rfft(levels)[1 : shapes.shape[1] + 1]) ** 2 / len(levels)
    spectra = variances[:, None] * shapes + white
    scores = weights - (np.log(spectra) + power / spectra).sum(axis=1)
    shares = np.exp(scores - scores.max())
    shares /= shares.sum()
    between = float(shares @ variances)
    spread = math.sqrt(max(float(shares @ variances**2) - between**2, 0.0))
    return between + (spread if drifts else 0.0), float(shares @ (variances * correlations)) / between


@functools.lru_cache(maxsize=512)
def _grid(nights: int, percent: float, factor: float, least: float) -> tuple[Array, Array, Array, Array]:
    """Of all pairs: the spectrum's shape by frequency, variance, correlation, and logarithm of the prior."""
    sizes, correlations = (axis.ravel() for axis in np.meshgrid(PERCENTS[least <= PERCENTS] / 100, CORRELATIONS))
    angles = 2 * np.pi * np.arange(1, (nights - 1) // 2 + 1) / nights
    shapes = (1 - correlations**2)[:, None] / (
        1 + correlations[:, None] ** 2 - 2 * correlations[:, None] * np.cos(angles)
    )
    away = np.log(np.maximum(sizes, PERCENTS[1] / 100) / (percent / 100)) / math.log(factor)
    return shapes, sizes**2, correlations, -(away**2) / 2
