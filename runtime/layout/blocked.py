"""Layout of blocked activations for CPUs: [batch][ceil(channels/block)][height][width][block]."""

from __future__ import annotations

import numpy as np

from runtime.graph import Array
from runtime.layout.buffer import Shape

BLOCKS = (8, 16)  # lanes that farmrt's blocked operators have


def blocked_shape(shape: Shape, block: int) -> Shape:
    """Extents in memory of a tensor (n, c, h, w): batch, blocks of channels, height, width, lanes."""
    batch, channels, height, width = shape
    return batch, -(-channels // block), height, width, block


def is_blocked_row_major(shape: Shape, block: int) -> bool:
    """Whether the blocks of a tensor are its elements in row-major order: single pixels, no gap between images."""
    batch, channels, height, width = shape
    return height * width == 1 and (batch == 1 or channels % block == 0)


def to_blocked(data: Array, block: int) -> Array:
    """A tensor (n, c, h, w) in blocks of channels, zero-filled, one-dimensional."""
    batch, blocks, height, width, lanes = blocked_shape(data.shape, block)
    padded = np.pad(data, ((0, 0), (0, blocks * lanes - data.shape[1]), (0, 0), (0, 0)))
    split = padded.reshape(batch, blocks, lanes, height, width)
    return np.ascontiguousarray(split.transpose(0, 1, 3, 4, 2)).reshape(-1)


def from_blocked(memory: Array, shape: Shape, block: int) -> Array:
    """The tensor of this shape that `to_blocked` laid out; lanes behind its channels are dropped."""
    batch, blocks, height, width, lanes = blocked_shape(shape, block)
    split = memory.reshape(batch, blocks, height, width, lanes).transpose(0, 1, 4, 2, 3)
    return split.reshape(batch, blocks * lanes, height, width)[:, : shape[1]]
