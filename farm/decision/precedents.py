"""Says whether a series has moved as far before, for whatever reason: then it may do so again.

Past moves are told by the nights alone, without a model: the mean of some nights against the median of the month before
them, in standard deviations that follow the recent past (exponentially weighted, as in RiskMetrics, 1996). So nights
that are hot, clocks that have two states and levels that a reboot draws anew are known once they were seen.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from farm.decision.noise import MAD_TO_SIGMA, WINSOR_LIMIT
from runtime.statistics.medians import Array, median, row_medians

HALF_LIFE_NIGHTS = 15.0
BASELINE_NIGHTS, LEAST_BASELINE = 30, 5
LEAST_SIGMA = 0.001


@dataclasses.dataclass(frozen=True)
class Moves:
    """How far a series moved, night by night, in standard deviations.

    Attributes:
        sizes: of each night that has a baseline; the mean of its last `nights` counts.
        sigma: tonight's standard deviation, of logarithms.
    """

    nights: int
    sizes: Array
    sigma: float

    def has_precedent(self, change: float, shifts: Array, share: float, left_out: int) -> bool:
        """Whether the series has moved by a share of a change before.

        Args:
            change: of the logarithm.
            shifts: changes of the series' level in the past, of logarithms.
            left_out: so many newest nights may be changed already.
        """
        past = np.abs(self.sizes[: max(len(self.sizes) - left_out, 0)])
        known = max(float(np.max(past, initial=0.0)) * self.sigma, float(np.max(np.abs(shifts), initial=0.0)))
        return known >= share * abs(change)


def moves(levels: Array, nights: int) -> Moves | None:
    """The moves of so many nights; None as long as there are too few. `levels`: logarithms of nights' figures."""
    apart, singles = distances(levels, nights, nights), distances(levels, 1, 1)
    is_known = np.isfinite(apart)
    if not is_known.any():
        return None
    sigma = max(MAD_TO_SIGMA * median(np.abs(apart[is_known])), LEAST_SIGMA)
    recent = _recent(singles[np.isfinite(singles)])
    return Moves(nights, apart[is_known] / (sigma * recent[: is_known.sum()]), sigma * float(recent[-1]))


def _recent(singles: Array) -> Array:
    """For each night, and the one to come, by what factor the nights before it varied more than usual."""
    sigma = max(MAD_TO_SIGMA * median(np.abs(singles)), LEAST_SIGMA)
    kept, square, squares = 0.5 ** (1 / HALF_LIFE_NIGHTS), 1.0, [1.0]
    for value in np.minimum((singles / sigma) ** 2, WINSOR_LIMIT**2).tolist():
        square = kept * square + (1 - kept) * value
        squares.append(square)
    return np.sqrt(squares)


def past_values(values: Array, nights: int) -> Array:
    """Of each place, and of the one to come, so many values before it; NaN where the series had not begun."""
    return np.lib.stride_tricks.sliding_window_view(np.concatenate([np.full(nights, np.nan), values]), nights)


def distances(levels: Array, nights: int, behind: int) -> Array:
    """Of each night: how far the mean of the last nights lies from the median of the month that ends `behind` ago.

    NaN where that has fewer than five nights. `levels`: logarithms of nights' figures, oldest first.
    """
    sizes = np.full(len(levels), np.nan)
    first = LEAST_BASELINE + behind - 1
    if len(levels) > first:
        past = past_values(levels, BASELINE_NIGHTS)[first + 1 - behind : len(levels) + 1 - behind]
        means = np.convolve(levels, np.full(nights, 1 / nights), "valid")[first + 1 - nights :]
        sizes[first:] = means - row_medians(past)
    return sizes
