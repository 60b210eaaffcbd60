"""Layout of blocked activations for CPUs: [batch][ceil(channels/block)][height][width][block]."""

from runtime.graph import Array
from runtime.layout.arrangement import Arrangement, Shape

BLOCKS = (8, 16)  # lanes that farmrt's blocked operators have


def blocked_channels(block: int) -> Arrangement:
    """Channels in blocks, as vector units read them."""
    return Arrangement("nchw", "nChwc", block)


def blocked_shape(shape: Shape, block: int) -> Shape:
    """Extents in memory of a tensor (n, c, h, w): batch, blocks of channels, height, width, lanes."""
    return blocked_channels(block).extents(shape)


def is_blocked_row_major(shape: Shape, block: int) -> bool:
    """Whether the blocks of a tensor are its elements in row-major order: single pixels, no gap between images."""
    batch, channels, height, width = shape
    return height * width == 1 and (batch == 1 or channels % block == 0)


def to_blocked(data: Array, block: int) -> Array:
    """A tensor (n, c, h, w) in blocks of channels, zero-filled, one-dimensional."""
    return blocked_channels(block).pack(data).reshape(-1)
