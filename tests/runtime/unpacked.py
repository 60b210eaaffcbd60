"""What lies in memory as the lowering lays it out, as tensors again."""

import math

from numpy.lib.stride_tricks import as_strided

from runtime.graph import Array
from runtime.layout.arrangement import Shape
from runtime.layout.blocked import blocked_channels
from runtime.layout.buffer import packed_rows


def nhwc_view(storage: Array, shape: Shape, offset: int = 0, stride: int = 0) -> Array:
    """A writable view in origin order (n, c, spatial...) of a pixel-major tensor in one-dimensional storage.

    Element (n, c, h, w) is storage[offset + ((n*H + h)*W + w)*stride + c]; stride 0 means the number of channels.
    """
    batch, channels, *spatial = shape
    inner = [math.prod(spatial[axis + 1 :]) for axis in range(len(spatial))]
    stride = stride or channels
    element_strides = (math.prod(spatial) * stride, 1, *(pixels * stride for pixels in inner))
    byte_strides = tuple(step * storage.itemsize for step in element_strides)
    return as_strided(storage.reshape(-1)[offset:], (batch, channels, *spatial), byte_strides)


def unpack_rows(packed: Array, groups: int, rows: int, cols: int, block: int) -> Array:
    """The weights [groups, rows, cols] that `pack_rows` packed with this block."""
    return packed_rows(block).unpack(packed, (groups, rows, cols))


def from_blocked(memory: Array, shape: Shape, block: int) -> Array:
    """The tensor of this shape that `to_blocked` laid out; lanes behind its channels are dropped."""
    return blocked_channels(block).unpack(memory, shape)
