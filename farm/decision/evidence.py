"""How far have the last nights moved from the level before them? Generalised least squares on logarithms of nights.

A night's figure is level + step since some night + drift + error of its measurements. Drift and errors have the
covariance of the noise model, so that a drift that began before tonight is not taken for a step of tonight (A. C.
Aitken, "On least squares and linear combination of observations", 1935). Each of the last nights also has a term of its
own that can be let in, which takes it out of the comparison.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
from scipy import special

from farm.decision.nights import Nights
from farm.decision.noise import DRAWN_IN, Array, Model, centre
from farm.decision.rules import Rules

ODD_VARIANCE = 1.0  # of a night that is left out of the baseline: it may be anywhere
TRIMMED_LOSS = 1.07  # variance of a mean without its ends, over that of the mean


@dataclasses.dataclass(frozen=True)
class Look:
    """The nights since a possible beginning, against the baseline.

    Attributes:
        nights: how many there are, tonight's included.
        baseline: logarithm of the level before.
        change: of the logarithm.
        error: its standard error.
        score: the change in standard errors, as rare as these are for a normal distribution.
        weakest: the score, in the direction of the change, that is left without the night that shows it most; 0 for a
            single night.
    """

    nights: int
    baseline: float
    change: float
    error: float
    score: float
    weakest: float


class Evidence:
    """Tonight's and the nights before it, made independent of each other."""

    def __init__(self, nights: Nights, model: Model, rules: Rules) -> None:
        begin = max(nights.start, len(nights) - 1 - rules.window)
        levels, counts = nights.levels[begin:], nights.counts[begin:]
        self._degrees = model.degrees(float(counts[-1]))
        self._least = rules.least
        self._pooled = min(rules.pooled, len(levels) - rules.least)
        white = TRIMMED_LOSS * model.within / counts
        is_odd = _odd(levels, white + model.between, self._pooled)
        self._odd_recent = is_odd[-self._pooled :]
        white[: -self._pooled][is_odd[: -self._pooled]] = ODD_VARIANCE
        self._gram = _gram(levels, white, model, self._pooled)

    def looks(self) -> list[Look]:
        """For each possible beginning, tonight's first."""
        return [self._look(nights) for nights in range(1, self._pooled + 1)]

    def _look(self, nights: int) -> Look:
        since = range(self._pooled - nights, self._pooled)
        odd = [night for night in range(self._pooled - nights) if self._odd_recent[night]]
        baseline, change, error = self._estimate(since, odd)
        sign = math.copysign(1.0, change)
        without = [self._estimate(since, [*odd, night])[1:] for night in since] if nights > 1 else []
        weakest = min((self._score(sign * part, part_error) for part, part_error in without), default=0.0)
        return Look(nights, baseline, change, error, self._score(abs(change), error), weakest)

    def _estimate(self, since: Iterable[int], left_out: Iterable[int]) -> tuple[float, float, float]:
        """Level before, change since, and its standard error."""
        left_out = list(left_out)
        terms = np.zeros((1 + self._pooled, 2 + len(left_out)))
        terms[0, 0] = 1
        terms[[1 + night for night in since], 1] = 1
        for column, night in enumerate(left_out):
            terms[1 + night, 2 + column] = 1
        covariance = np.linalg.inv(terms.T @ self._gram[1:, 1:] @ terms)
        found = covariance @ (terms.T @ self._gram[1:, 0])
        return float(found[0]), float(found[1]), math.sqrt(covariance[1, 1])

    def _score(self, change: float, error: float) -> float:
        """As rare for a normal distribution as this is for Student's."""
        return float(-special.ndtri(special.stdtr(self._degrees, -change / error)))

    def width(self, error: float) -> float:
        """Half of a 95 % interval."""
        return float(special.stdtrit(self._degrees, 0.975)) * error


def _odd(levels: Array, variances: Array, pooled: int) -> npt.NDArray[np.bool_]:
    middle = centre(levels[:-pooled])
    return np.abs(levels - middle) > DRAWN_IN * np.sqrt(variances)


def _gram(levels: Array, white: Array, model: Model, pooled: int) -> Array:
    """Inner products of: levels, ones, and each of the last nights; all made independent of the nights before.

    What is new in each night, in standard deviations, comes from a Kalman filter of the drift (R. E. Kalman, 1960);
    plain Python, as a linear-algebra library starts threads for matrices as small as these.
    """
    pushed = model.between * (1 - model.correlation**2)
    variance, expected = model.between, [0.0] * (2 + pooled)
    rows = []
    for night, (level, error) in enumerate(zip(levels.tolist(), white.tolist(), strict=True)):
        row = [level, 1.0, *(float(night == len(levels) - pooled + each) for each in range(pooled))]
        new = [value - guess for value, guess in zip(row, expected, strict=True)]
        total = variance + error
        rows.append([value / math.sqrt(total) for value in new])
        gain = variance / total
        expected = [model.correlation * (guess + gain * value) for guess, value in zip(expected, new, strict=True)]
        variance = model.correlation**2 * variance * (1 - gain) + pushed
    flat = np.array(rows)
    return np.asarray(np.einsum("ni,nj->ij", flat, flat))
