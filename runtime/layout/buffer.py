"""Layouts of buffers: NHWC views of activations and packed rows of weights."""

from __future__ import annotations

import math

from numpy.lib.stride_tricks import as_strided

from runtime.graph import Array
from runtime.layout.arrangement import Arrangement, Shape


def nhwc_size(shape: Shape, stride: int = 0) -> int:
    """Elements from the first to the last of a tensor (n, c, spatial...) whose pixels are `stride` apart (0: c)."""
    batch, channels, *spatial = shape
    pixels = batch * math.prod(spatial)
    return (pixels - 1) * (stride or channels) + channels


def nhwc_view(storage: Array, shape: Shape, offset: int = 0, stride: int = 0) -> Array:
    """A writable view in origin order (n, c, spatial...) of a pixel-major tensor in one-dimensional storage.

    Element (n, c, h, w) is storage[offset + ((n*H + h)*W + w)*stride + c]; stride 0 means the number of channels, a
    greater one makes the tensor a channel range of a wider one. Raises ValueError where the storage is too short.
    """
    batch, channels, *spatial = shape
    stride = stride or channels
    if stride < channels:
        raise ValueError(f"pixel stride {stride} is less than {channels} channels")
    if offset < 0 or offset + nhwc_size(shape, stride) > storage.size:
        raise ValueError(f"shape {shape} with stride {stride} at {offset} exceeds {storage.size} elements")
    inner = [math.prod(spatial[axis + 1 :]) for axis in range(len(spatial))]
    element_strides = (math.prod(spatial) * stride, 1, *(pixels * stride for pixels in inner))
    byte_strides = tuple(step * storage.itemsize for step in element_strides)
    return as_strided(storage.reshape(-1)[offset:], (batch, channels, *spatial), byte_strides)


def packed_rows(block: int) -> Arrangement:
    """Weights [groups, rows, cols] as [groups][ceil(rows/block)][cols][block], zero-filled.

    So a kernel that computes `block` neighbouring rows reads their weights of one column with one vector load.
    """
    return Arrangement("grc", "gRcr", block)


def pack_rows(weights: Array, block: int) -> Array:
    """Weights [groups, rows, cols] in `packed_rows`, one-dimensional."""
    return packed_rows(block).pack(weights).reshape(-1)


def unpack_rows(packed: Array, groups: int, rows: int, cols: int, block: int) -> Array:
    """The weights [groups, rows, cols] that `pack_rows` packed with this block."""
    return packed_rows(block).unpack(packed, (groups, rows, cols))
