"""Computes Resize in NumPy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from runtime.families.resize.nearest import nearest_indices
from runtime.graph import Array
from runtime.oracle import Compute, first_input
from runtime.shape_functions import Attributes


def _resize(arguments: Sequence[Array | None], attributes: Attributes) -> Array:
    """Resizes height, then width: both modes are separable."""
    out = first_input(arguments)
    for axis, size, scale in zip((2, 3), attributes["sizes"], attributes["scales"], strict=True):
        extent, coordinates = out.shape[axis], attributes["coordinate_transformation_mode"]
        if attributes["mode"] == "nearest":
            chosen = nearest_indices(extent, size, scale, coordinates, attributes["nearest_mode"])
            out = np.take(out, chosen, axis=axis)
        else:
            out = _interpolate(out, source_coordinates(extent, size, scale, coordinates), axis)
    return out


def source_coordinates(extent: int, size: int, scale: float, mode: str) -> Array:
    """Where each of the `size` output positions lies in an input of `extent` positions, as ONNX Resize defines it."""
    position = np.arange(size, dtype=np.float64)
    if mode == "asymmetric":
        return position / scale
    if mode == "align_corners":
        return position * (extent - 1) / (size - 1) if size > 1 else np.zeros(1)
    if mode == "pytorch_half_pixel" and size == 1:
        return np.zeros(1)
    return (position + 0.5) / scale - 0.5


def _interpolate(x: Array, source: Array, axis: int) -> Array:
    inside = np.clip(source, 0, x.shape[axis] - 1)
    low = np.floor(inside).astype(np.int64)
    high = np.minimum(low + 1, x.shape[axis] - 1)
    weight = (inside - low).reshape([-1 if other == axis else 1 for other in range(x.ndim)]).astype(x.dtype)
    return np.asarray(np.take(x, low, axis=axis) * (1 - weight) + np.take(x, high, axis=axis) * weight)


COMPUTE: Mapping[str, Compute] = {"Resize": _resize}
