"""Arrangements: how the axes of a tensor follow each other in memory, as data; one engine packs and unpacks all."""

import dataclasses
import math

import numpy as np

from runtime.graph import Array

Shape = tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class Arrangement:
    """The axes of a tensor and those of its memory, one letter each.

    An upper-case letter in `stored` counts blocks of `block` neighbours on its axis; the same letter in lower case is
    the lane within the block. So `nChwc` in blocks of 8 holds element (n, c, h, w) at [n][c/8][h][w][c%8].

    Attributes:
        axes: in the order in which the tensor is given.
        stored: in memory, slowest first.
        rounded: axes that are extended to a multiple of `block` though they are not split.
        single: axes that must have one element.
    """

    axes: str
    stored: str
    block: int = 1
    rounded: str = ""
    single: str = ""

    def extents(self, shape: Shape) -> Shape:
        """Elements along each stored axis: the shape in memory, padding included.

        Raises ValueError where a tensor of this shape cannot be arranged so.
        """
        sizes = dict(zip(self.axes, self._padded(shape), strict=True))
        return tuple(self._extent(letter, sizes) for letter in self.stored)

    def pack(self, array: Array) -> Array:
        """The memory of a tensor, an axis for each stored one; its element type is kept, padding is zero."""
        return self.view(array).copy()

    def view(self, array: Array) -> Array:
        """What `pack` copies: a view of the tensor, or of a copy where it has padding."""
        padded = self._padded(array.shape)
        gaps = [(0, stored - size) for stored, size in zip(padded, array.shape, strict=True)]
        filled = np.pad(array, gaps) if padded != array.shape else array
        order = [self._split.index(letter) for letter in self.stored]
        return filled.reshape(self._split_extents(padded)).transpose(order)

    def unpack(self, memory: Array, shape: Shape) -> Array:
        """The tensor of `shape` that `pack` packed; what lies in the padding is not looked at."""
        order = [self.stored.index(letter) for letter in self._split]
        padded = memory.reshape(self.extents(shape)).transpose(order).reshape(self._padded(shape))
        return padded[tuple(slice(size) for size in shape)].copy()

    @property
    def _split(self) -> str:
        """The letters of the stored axes in the tensor's order: an axis that is split gives its blocks, then lanes."""
        return "".join(axis.upper() + axis if self._is_split(axis) else axis for axis in self.axes)

    def _is_split(self, axis: str) -> bool:
        return axis.upper() in self.stored

    def _split_extents(self, padded: Shape) -> Shape:
        sizes = dict(zip(self.axes, padded, strict=True))
        return tuple(self._extent(letter, sizes) for letter in self._split)

    def _extent(self, letter: str, sizes: dict[str, int]) -> int:
        if letter.isupper():
            return sizes[letter.lower()] // self.block
        return self.block if self._is_split(letter) else sizes[letter]

    def _padded(self, shape: Shape) -> Shape:
        """The tensor's shape with its padding."""
        if len(shape) != len(self.axes):
            raise ValueError(f"holds tensors of {len(self.axes)} axes, not of shape {shape}")
        if any(size != 1 for axis, size in zip(self.axes, shape, strict=True) if axis in self.single):
            raise ValueError(f"a multiplier other than 1 in shape {shape}")
        return tuple(
            math.ceil(size / self.block) * self.block if self._is_split(axis) or axis in self.rounded else size
            for axis, size in zip(self.axes, shape, strict=True)
        )
