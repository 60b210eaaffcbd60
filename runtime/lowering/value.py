"""A value: a tensor in one storage, before it has a place in memory."""

from __future__ import annotations

import dataclasses
import math

from runtime.graph import Array
from runtime.layout.image import ImageLayout
from runtime.types import ELEMENT_BYTES, ElementType, Role, Storage


@dataclasses.dataclass(eq=False)
class Value:
    """A tensor in one storage.

    Attributes:
        shape: origin order.
        stride: NHWC only: elements from pixel to pixel.
        base, offset: this value is a part of `base` (a channel range, a slice) or the same memory under another shape;
            it starts `offset` elements behind it.
        data: content of a constant, as it lies in memory (an image: [height, width, 4]).
        layout: how an image holds the elements.
    """

    name: str
    shape: tuple[int, ...]
    storage: Storage
    element: ElementType
    stride: int = 0
    base: Value | None = None
    offset: int = 0
    role: Role = Role.INTERMEDIATE
    data: Array | None = None
    layout: ImageLayout = ImageLayout.CHANNEL_MAJOR

    @property
    def root(self) -> Value:
        """The value whose memory this one lies in."""
        return self.base.root if self.base else self

    @property
    def root_offset(self) -> int:
        """Where this value starts in its root's memory, in elements."""
        return self.offset + (self.base.root_offset if self.base else 0)

    @property
    def element_bytes(self) -> int:
        """Bytes of an element in memory."""
        return ELEMENT_BYTES[self.element]

    @property
    def size(self) -> int:
        """Number of elements, padding left out."""
        return math.prod(self.shape)

    @property
    def size_bytes(self) -> int:
        """Bytes that a buffer value occupies."""
        return self.data.nbytes if self.data is not None else math.prod(self.shape) * self.element_bytes

    @property
    def pixels(self) -> int:
        """Batch x height x width of a 4-axis tensor."""
        n, _, h, w = self.shape
        return n * h * w

    @property
    def strides(self) -> tuple[int, ...]:
        """Elements between neighbours along each axis, origin order (buffers)."""
        if self.storage == Storage.NHWC:
            _, _, h, w = self.shape
            return (h * w * self.stride, 1, w * self.stride, self.stride)
        return row_major(self.shape)

    @property
    def is_row_major(self) -> bool:
        """Whether the elements lie row-major in origin order without gaps."""
        return all(
            size == 1 or stride == expected
            for size, stride, expected in zip(self.shape, self.strides, row_major(self.shape), strict=True)
        )


def row_major(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Strides of a dense row-major array, in elements."""
    return tuple(math.prod(shape[axis + 1 :]) for axis in range(len(shape)))
