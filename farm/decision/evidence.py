"""How far have the last nights moved from the level before them? Generalised least squares on logarithms of nights.

A night's figure is level + step since some night + drift + error of its measurements. Drift and errors have the
covariance of the noise model, so that a drift that began before tonight is not taken for a step of tonight (A. C.
Aitken, "On least squares and linear combination of observations", 1935). Each of the last nights also has a term of its
own that can be let in, which takes it out of the comparison.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from scipy import special

from farm.decision.judgement import Look
from farm.decision.nights import Nights
from farm.decision.noise import DRAWN_IN, Array, Model, centre
from farm.decision.rules import Rules

ODD_VARIANCE = 1.0  # of a night that is left out of the baseline: it may be anywhere
TRIMMED_LOSS = 1.07  # variance of a mean without its ends, over that of the mean


class Evidence:
    """Tonight's and the nights before it, made independent of each other."""

    def __init__(self, nights: Nights, start: int, model: Model, rules: Rules) -> None:
        begin = max(start, len(nights) - 1 - rules.window)
        levels, counts = nights.levels[begin:], nights.counts[begin:]
        self._degrees = model.degrees(float(counts[-1]))
        most = len(levels) - rules.least
        self._beginnings = [nights for nights in rules.beginnings if nights <= most]
        self._pooled = max(self._beginnings)
        self._least = rules.each  # what scores less proves nothing
        white = TRIMMED_LOSS * model.within / counts
        is_odd = _odd(levels, white + model.between, self._pooled)
        self._odd_recent = is_odd[-self._pooled :]
        white[: -self._pooled][is_odd[: -self._pooled]] = ODD_VARIANCE
        self._gram = _gram(levels, white, model, self._pooled)

    def looks(self) -> list[Look]:
        """For each possible beginning, tonight's first."""
        return [self._look(nights) for nights in self._beginnings]

    def _look(self, nights: int) -> Look:
        since, odd = self._parts(nights)
        baseline, change, error = self._estimate(since, odd)
        score = self._score(abs(change), error)
        weakest = self._weakest(since, odd, change) if nights > 1 and score >= self._least else 0.0
        return Look(nights, baseline, change, error, score, weakest)

    def _weakest(self, since: Sequence[int], odd: Sequence[int], change: float) -> float:
        parts = [self._estimate(since, [*odd, night]) for night in since]
        return min(self._score(math.copysign(part, part * change), error) for _, part, error in parts)

    def _parts(self, nights: int) -> tuple[list[int], list[int]]:
        """The last so many nights, and the odd ones of those before them; counted within the pooled ones."""
        first = self._pooled - nights
        return list(range(first, self._pooled)), [night for night in range(first) if self._odd_recent[night]]

    def _estimate(self, since: Sequence[int], left_out: Sequence[int]) -> tuple[float, float, float]:
        """Level before, change since, and its standard error."""
        terms = np.zeros((1 + self._pooled, 2 + len(left_out)))
        terms[0, 0] = 1
        terms[1 + np.array(since), 1] = 1
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
    steps = _filter(white.tolist(), model)
    flat = np.zeros((len(levels), 2 + pooled))
    flat[:, 0] = _news(levels.tolist(), steps, model.correlation)
    flat[:, 1] = _news([1.0] * len(levels), steps, model.correlation)
    for each in range(pooled):
        night = len(levels) - pooled + each
        flat[night:, 2 + each] = _news([1.0] + [0.0] * (pooled - each - 1), steps[night:], model.correlation)
    return np.asarray(np.einsum("ni,nj->ij", flat, flat))


def _filter(white: list[float], model: Model) -> list[tuple[float, float]]:
    """For each night: how much of what is new is drift, and its standard deviation's inverse."""
    pushed, squared = model.between * (1 - model.correlation**2), model.correlation**2
    variance, steps = model.between, []
    for error in white:
        total = variance + error
        steps.append((variance / total, total**-0.5))
        variance = squared * variance * error / total + pushed
    return steps


def _news(column: list[float], steps: list[tuple[float, float]], correlation: float) -> list[float]:
    """What each night tells beyond the nights before it."""
    expected, found = 0.0, []
    for value, (gain, scale) in zip(column, steps, strict=True):
        new = value - expected
        found.append(new * scale)
        expected = correlation * (expected + gain * new)
    return found
