"""Estimates how far the last nights have moved from the level before, by generalised least squares on logarithms.

A night's figure is level + level shift since some night + drift + error of its measurements. Drift and errors have the
covariance of the noise model, so that a drift that began before tonight is not taken for a shift of tonight (A. C.
Aitken, "On least squares and linear combination of observations", 1935). Each of the last nights can also get a term of
its own, which takes that night out of the comparison.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from scipy import special

from farm.decision.history import SeriesHistory
from farm.decision.judgement import OnsetTest
from farm.decision.noise import WINSOR_LIMIT, Array, NoiseModel, trimmed_level
from farm.decision.rules import Rules

OUTLIER_VARIANCE = 1.0  # so large that an outlier has no weight in the baseline
TRIMMED_LOSS = 1.07  # variance of a mean without its ends, over that of the mean


class Evidence:
    """Tonight and the nights before it, whitened: transformed so that their errors are independent."""

    def __init__(self, nights: SeriesHistory, start: int, model: NoiseModel, rules: Rules) -> None:
        begin = max(start, len(nights) - 1 - rules.window_nights)
        levels, counts = nights.levels[begin:], nights.counts[begin:]
        self._degrees = model.degrees(float(counts[-1]))
        most = len(levels) - rules.least_nights
        self._onset_nights = [nights for nights in rules.onset_nights if nights <= most]
        self._pooled = max(self._onset_nights)
        self._least_score = rules.each_with_twin  # what scores less proves nothing
        white = TRIMMED_LOSS * model.within / counts
        is_odd = _is_outlier(levels, white + model.between, self._pooled)
        self._odd_recent = is_odd[-self._pooled :]
        white[: -self._pooled][is_odd[: -self._pooled]] = OUTLIER_VARIANCE
        self._gram = _gram(levels, white, model, self._pooled)

    def looks(self) -> list[OnsetTest]:
        """Tests each possible onset of a change; tonight is the first."""
        return [self._test(nights) for nights in self._onset_nights]

    def _test(self, nights: int) -> OnsetTest:
        since_onset, outliers = self._parts(nights)
        baseline, change, error = self._estimate(since_onset, outliers)
        score = self._score(abs(change), error)
        weakest = (
            self._leave_one_out_score(since_onset, outliers, change)
            if nights > 1 and score >= self._least_score
            else 0.0
        )
        return OnsetTest(nights, baseline, change, error, score, weakest)

    def _leave_one_out_score(self, since_onset: Sequence[int], outliers: Sequence[int], change: float) -> float:
        parts = [self._estimate(since_onset, [*outliers, night]) for night in since_onset]
        return min(self._score(math.copysign(part, part * change), error) for _, part, error in parts)

    def _parts(self, nights: int) -> tuple[list[int], list[int]]:
        """The last so many nights, and the odd ones of those before them; counted within the pooled ones."""
        first = self._pooled - nights
        return list(range(first, self._pooled)), [night for night in range(first) if self._odd_recent[night]]

    def _estimate(self, since_onset: Sequence[int], left_out: Sequence[int]) -> tuple[float, float, float]:
        """Level before, change since, and its standard error."""
        terms = np.zeros((1 + self._pooled, 2 + len(left_out)))
        terms[0, 0] = 1
        terms[1 + np.array(since_onset), 1] = 1
        for column, night in enumerate(left_out):
            terms[1 + night, 2 + column] = 1
        covariance = np.linalg.inv(terms.T @ self._gram[1:, 1:] @ terms)
        solution = covariance @ (terms.T @ self._gram[1:, 0])
        return float(solution[0]), float(solution[1]), math.sqrt(covariance[1, 1])

    def _score(self, change: float, error: float) -> float:
        """The normal quantile with the same tail probability as change / error in Student's distribution."""
        return float(-special.ndtri(special.stdtr(self._degrees, -change / error)))

    def width(self, error: float) -> float:
        """Half of a 95 % interval."""
        return float(special.stdtrit(self._degrees, 0.975)) * error


def _is_outlier(levels: Array, variances: Array, pooled: int) -> npt.NDArray[np.bool_]:
    middle = trimmed_level(levels[:-pooled])
    return np.abs(levels - middle) > WINSOR_LIMIT * np.sqrt(variances)


def _gram(levels: Array, white: Array, model: NoiseModel, pooled: int) -> Array:
    """Gram matrix of the whitened columns: levels, ones, and an indicator of each of the last nights.

    A Kalman filter of the drift (R. E. Kalman, 1960) turns each column into innovations in standard deviations. Plain
    Python, as a linear-algebra library starts threads for matrices as small as these.
    """
    steps = _kalman_gains(white.tolist(), model)
    flat = np.zeros((len(levels), 2 + pooled))
    flat[:, 0] = _innovations(levels.tolist(), steps, model.correlation)
    flat[:, 1] = _innovations([1.0] * len(levels), steps, model.correlation)
    for column in range(pooled):
        night = len(levels) - pooled + column
        flat[night:, 2 + column] = _innovations([1.0] + [0.0] * (pooled - column - 1), steps[night:], model.correlation)
    return np.asarray(np.einsum("ni,nj->ij", flat, flat))


def _kalman_gains(white: list[float], model: NoiseModel) -> list[tuple[float, float]]:
    """For each night: the Kalman gain, and the inverse standard deviation of the innovation."""
    pushed, squared = model.between * (1 - model.correlation**2), model.correlation**2
    variance, steps = model.between, []
    for error in white:
        total = variance + error
        steps.append((variance / total, total**-0.5))
        variance = squared * variance * error / total + pushed
    return steps


def _innovations(column: list[float], steps: list[tuple[float, float]], correlation: float) -> list[float]:
    """The innovations of a column: each night's value less its prediction from the nights before, scaled."""
    expected, innovations = 0.0, []
    for value, (gain, scale) in zip(column, steps, strict=True):
        innovation = value - expected
        innovations.append(innovation * scale)
        expected = correlation * (expected + gain * innovation)
    return innovations
