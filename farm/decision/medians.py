"""Medians of a few numbers, as NumPy gives them, in a tenth of its time: a series' judgement takes dozens."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]


def median(values: Array) -> float:
    """Of numbers without NaN, at least one."""
    ordered = np.sort(values)
    return float(ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) / 2


def row_medians(rows: Array) -> Array:
    """Of the numbers of each row, NaN left out."""
    ordered = np.sort(rows, axis=1)  # NaN come last
    known = np.isfinite(ordered).sum(axis=1)
    middle = np.stack([(known - 1) // 2, known // 2], axis=1)
    return np.asarray(np.take_along_axis(ordered, middle, axis=1).mean(axis=1))
