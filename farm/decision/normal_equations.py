"""The normal equations of a level and one shift of it, with single nights taken out at will.

Two unknowns need no linear-algebra library: a night is taken out by one step of elimination (the sweep operator, J. H.
Goodnight, "A tutorial on the SWEEP operator", The American Statistician 33, 1979).
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

from runtime.statistics.medians import Array

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
