"""Layouts of buffers: activations in NHWC, and packed rows of weights."""

from __future__ import annotations

import math

from runtime.graph import Array
from runtime.layout.arrangement import Arrangement, Shape


def nhwc_size(shape: Shape, stride: int = 0) -> int:
    """Elements from the first to the last of a tensor (n, c, spatial...) whose pixels are `stride` apart (0: c)."""
    batch, channels, *spatial = shape
    pixels = batch * math.prod(spatial)
    return (pixels - 1) * (stride or channels) + channels


def packed_rows(block: int) -> Arrangement:
    """Weights [groups, rows, cols] as [groups][ceil(rows/block)][cols][block], zero-filled.

    So a kernel that computes `block` neighbouring rows reads their weights of one column with one vector load.
    """
    return Arrangement("grc", "gRcr", block)


def pack_rows(weights: Array, block: int) -> Array:
    """Weights [groups, rows, cols] in `packed_rows`, one-dimensional."""
    return packed_rows(block).pack(weights).reshape(-1)
