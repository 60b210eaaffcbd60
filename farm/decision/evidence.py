"""Estimates how far the last nights have moved from the level before, by generalised least squares on logarithms.

A night's figure is level + level shift since some night + drift + error of its measurements. Drift and errors have the
covariance of the noise model, so that a drift that began before tonight is not taken for a shift of tonight (A. C.
Aitken, "On least squares and linear combination of observations", 1935). Each of the last nights can also get a term of
its own, which takes that night out of the comparison.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from farm.decision.judgement import OnsetTest
from farm.decision.noise import WINSOR_LIMIT, NoiseModel, trimmed_level
from farm.decision.rules import Rules
from runtime.statistics.medians import Array

OUTLIER_VARIANCE = 1.0  # so large that an outlier has no weight in the baseline
TRIMMED_LOSS = 1.07  # variance of a mean without its ends, over that of the mean


class Evidence:
    """Tonight and the nights before it, whitened: transformed so that their errors are independent.

    Args:
        levels, counts: of the history's nights and of tonight, oldest first, since the last level shift.
    """

    def __init__(self, levels: Array, counts: Array, model: NoiseModel, rules: Rules) -> None:
        self._degrees = model.degrees(float(counts[-1]))
        most = len(levels) - rules.least_nights
        self._onset_nights = [nights for nights in rules.onset_nights if nights <= most]
        self._pooled = max(self._onset_nights)
        self._least_score = rules.each_with_twin  # what scores less proves nothing
        white = TRIMMED_LOSS * model.within / counts
        is_odd = _is_outlier(levels, white + model.between, self._pooled)
        self._odd_recent = [night for night, odd in enumerate(is_odd[-self._pooled :].tolist()) if odd]
        white[: -self._pooled][is_odd[: -self._pooled]] = OUTLIER_VARIANCE
        self._gram = _gram(levels, white, model, self._pooled)

    def looks(self) -> list[OnsetTest]:
        """Tests each possible onset of a change; tonight is the first."""
        return [self._test(nights) for nights in self._onset_nights]

    def _test(self, nights: int) -> OnsetTest:
        first = self._pooled - nights
        equations = NormalEquations.of(self._gram, first, [night for night in self._odd_recent if night < first])
        baseline, change, error = equations.solution()
        score = self._score(abs(change), error)
        is_proof = nights > 1 and score >= self._least_score
        weakest = self._leave_one_out_score(equations, change) if is_proof else 0.0
        return OnsetTest(nights, baseline, change, error, score, weakest)

    def _leave_one_out_score(self, equations: NormalEquations, change: float) -> float:
        parts = [equations.without(night).solution() for night in range(len(equations.nights))]
        return min(self._score(math.copysign(part, part * change), error) for _, part, error in parts)

    def _score(self, change: float, error: float) -> float:
        """The normal quantile with the same tail probability as change / error in Student's distribution."""
        from scipy import special  # takes long to import, for most commands in vain

        return float(-special.ndtri(special.stdtr(self._degrees, -change / error)))

    @functools.cached_property
    def width_in_errors(self) -> float:
        """Half of a 95 % interval, in standard errors."""
        from scipy import special  # takes long to import, for most commands in vain

        return float(special.stdtrit(self._degrees, 0.975))

    def width(self, error: float) -> float:
        """Half of a 95 % interval."""
        return self.width_in_errors * error


def _is_outlier(levels: Array, variances: Array, pooled: int) -> npt.NDArray[np.bool_]:
    middle = trimmed_level(levels[:-pooled])
    return np.abs(levels - middle) > WINSOR_LIMIT * np.sqrt(variances)


def _gram(levels: Array, white: Array, model: NoiseModel, pooled: int) -> Array:
    """Gram matrix of the whitened columns: levels, ones, and an indicator of each of the last nights.

    A Kalman filter of the drift (R. E. Kalman, 1960) turns each column into innovations in standard deviations: each
    night's value less its prediction from the nights before. Plain Python, as a linear-algebra library starts threads
    for matrices as small as these.
    """
    columns, steps = _innovations(levels.tolist(), white.tolist(), model)
    flat = np.zeros((len(levels), 2 + pooled))
    flat[:, :2] = columns
    for column, night in enumerate(range(len(levels) - pooled, len(levels))):
        flat[night:, 2 + column] = _echo(steps[night:], model.correlation)
    return np.asarray(np.einsum("ni,nj->ij", flat, flat))


def _innovations(
    levels: list[float], white: list[float], model: NoiseModel
) -> tuple[list[tuple[float, float]], list[tuple[float, float]]]:
    """Those of the levels and of ones, and the filter's steps: gain, and inverse standard deviation."""
    correlation, variance = model.correlation, model.between
    pushed, squared = variance * (1 - correlation**2), correlation**2
    expected_level = expected_one = 0.0
    columns, steps = [], []
    for level, error in zip(levels, white, strict=True):
        total = variance + error
        gain, scale = variance / total, total**-0.5
        new_level, new_one = level - expected_level, 1.0 - expected_one
        columns.append((new_level * scale, new_one * scale))
        steps.append((gain, scale))
        expected_level = correlation * (expected_level + gain * new_level)
        expected_one = correlation * (expected_one + gain * new_one)
        variance = squared * variance * error / total + pushed
    return columns, steps


def _echo(steps: list[tuple[float, float]], correlation: float) -> list[float]:
    """The innovations of an indicator: one in its first night, nothing after it."""
    gain, scale = steps[0]
    expected, innovations = correlation * gain, [scale]
    for gain, scale in steps[1:]:
        innovations.append(-expected * scale)
        expected *= correlation * (1.0 - gain)
    return innovations


# The normal equations of a level and one shift of it, with single nights taken out at will.
#
# Two unknowns need no linear-algebra library: a night is taken out by one step of elimination (the sweep operator, J.
# H. Goodnight, "A tutorial on the SWEEP operator", The American Statistician 33, 1979).
LEVELS, ONES, NIGHTS = 0, 1, 2  # columns of a Gram matrix; each of the last nights follows


@dataclasses.dataclass(frozen=True)
class NormalEquations:
    """Inner products of the levels, of ones, and of the indicator of the nights since the onset.

    `nights`: of each night since the onset: its products with the levels, ones, the indicator, and itself.
    """

    ones_levels: float
    ones_ones: float
    since_levels: float
    since_ones: float
    since_since: float
    nights: Sequence[tuple[float, float, float, float]] = ()

    @classmethod
    def of(cls, gram: Array, first: int, left_out: Sequence[int]) -> NormalEquations:
        """Of a Gram matrix: the change begins in its night `first`, the nights `left_out` before do not count."""
        for night in left_out:
            column = gram[:, NIGHTS + night]
            gram = gram - column[:, None] * column / column[NIGHTS + night]
        begin = NIGHTS + first
        since, own = gram[begin:].sum(axis=0).tolist(), gram[begin:, begin:].diagonal().tolist()
        levels, ones = gram[LEVELS].tolist(), gram[ONES].tolist()
        return cls(
            *(ones[LEVELS], ones[ONES], since[LEVELS], since[ONES], sum(since[begin:])),
            nights=tuple(zip(levels[begin:], ones[begin:], since[begin:], own, strict=True)),
        )

    def without(self, night: int) -> NormalEquations:
        """With one of the nights since the onset taken out."""
        levels, ones, since, own = self.nights[night]
        return NormalEquations(
            self.ones_levels - ones * levels / own,
            self.ones_ones - ones * ones / own,
            self.since_levels - since * levels / own,
            self.since_ones - since * ones / own,
            self.since_since - since * since / own,
        )

    def solution(self) -> tuple[float, float, float]:
        """Level before, change since, and its standard error."""
        determinant = self.ones_ones * self.since_since - self.since_ones**2
        before = self.since_since * self.ones_levels - self.since_ones * self.since_levels
        change = self.ones_ones * self.since_levels - self.since_ones * self.ones_levels
        return before / determinant, change / determinant, math.sqrt(self.ones_ones / determinant)
