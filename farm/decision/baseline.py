"""The plain baseline of a night: the median of the month before it, whatever the noise is like."""

from __future__ import annotations

import numpy as np

from runtime.statistics.medians import Array, row_medians

BASELINE_NIGHTS, LEAST_BASELINE = 30, 5


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
