"""A value: a tensor in one storage, before it has a place in memory."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Collection, Mapping

import numpy as np

from runtime.graph import Array
from runtime.layout.blocked import blocked_shape, is_blocked_row_major
from runtime.layout.image import ImageLayout
from runtime.layout.storage import NHWC, ROW_MAJOR, StorageFormat, TensorStorage, blocked, of_image
from runtime.plan.plan_data import Constant
from runtime.semantics.quantization import Quantization
from runtime.types import ELEMENT_BYTES, ElementType, Origin, OriginFormat, Role, Storage

FOUND_STEPS_BYTES = 8  # a float and an int32 behind a tensor's bytes


@dataclasses.dataclass(frozen=True)
class Steps:
    """What a byte u of a tensor of floats that is stored in eight bits stands for: step * (u - zero).

    `is_found`: both are found as the model runs, and follow the bytes in memory; what is told here is nothing then.
    """

    step: float
    zero: int
    is_found: bool = False

    @staticmethod
    def of(known: Quantization) -> Steps:
        """Those of whole tensors of eight bits, signed or not."""
        return Steps(known.scale[0], known.zero_point[0] - int(np.iinfo(known.integers).min))

    def reals(self) -> Array:
        """What all bytes stand for."""
        return np.asarray((np.arange(256) - self.zero) * self.step, np.float32)


def byte_bounds(steps: Steps, names: str) -> dict[str, float]:
    """The least and the greatest whole number of steps that bytes hold, by the names of two of a kernel's arguments."""
    low, high = names.split()
    return {low: -float(steps.zero), high: 255.0 - steps.zero}


@dataclasses.dataclass(frozen=True)
class InBytes:
    """What computes in eight bits, and the tensors that are stored in them.

    `nodes`: output of a node -> the tensor that it writes: that of a FakeQuantize behind it where both are one.
    """

    nodes: Mapping[str, str] = dataclasses.field(default_factory=dict)
    tensors: Collection[str] = ()


@dataclasses.dataclass(eq=False)
class Value:
    """A tensor in one storage.

    Attributes:
        shape: origin order.
        stride: NHWC only: elements from pixel to pixel.
        block: BLOCKED only: channels of a block.
        base, offset: this value is a part of `base` (a channel range, a slice) or the same memory under another shape;
            it starts `offset` elements behind it.
        data: content of a constant, as it lies in memory (an image: [height, width, 4]).
        layout: how an image holds the elements.
        steps: of floats that are stored in eight bits.
    """

    name: str
    shape: tuple[int, ...]
    storage: Storage
    element: ElementType
    stride: int = 0
    base: Value | None = None
    offset: int = 0
    role: Role = Role.INTERMEDIATE
    data: Constant | None = None
    layout: ImageLayout = ImageLayout.CHANNEL_MAJOR
    block: int = 0
    steps: Steps | None = None

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
    def format(self) -> StorageFormat:
        """The storage format, of axes that are taken by position."""
        if self.storage == Storage.IMAGE:
            return of_image(self.layout)
        if self.storage == Storage.BLOCKED:
            return blocked(self.block)
        return NHWC if self.storage == Storage.NHWC else ROW_MAJOR

    @property
    def stored(self) -> TensorStorage:
        """How it lies in memory if it has that for itself; shape and padding there follow from it."""
        return TensorStorage(Origin(OriginFormat.ND, self.shape), self.format)

    @property
    def size(self) -> int:
        """Number of elements, padding left out."""
        return math.prod(self.shape)

    @property
    def size_bytes(self) -> int:
        """Bytes that the value occupies, padding included."""
        if self.data is not None:
            return self.data.nbytes
        behind = FOUND_STEPS_BYTES if self.steps and self.steps.is_found else 0
        return self.stored.elements * self.element_bytes + behind

    @property
    def pixels(self) -> int:
        """Batch x height x width of a 4-axis tensor."""
        n, _, h, w = self.shape
        return n * h * w

    @property
    def strides(self) -> tuple[int, ...]:
        """Elements between neighbours along each axis, origin order (FLAT and NHWC)."""
        if self.storage == Storage.NHWC:
            _, _, h, w = self.shape
            return (h * w * self.stride, 1, w * self.stride, self.stride)
        return row_major(self.shape)

    def blocks(self, name: str, shape: tuple[int, ...], channel: int) -> Value:
        """The part of a blocked tensor of one image from a channel on, which is the first of a block."""
        pixels = self.shape[2] * self.shape[3]
        offset = channel * pixels
        return Value(name, shape, self.storage, self.element, 0, self, offset, block=self.block, steps=self.steps)

    def channels(self, name: str, shape: tuple[int, ...], channel: int) -> Value:
        """The part of an image in blocks or NHWC from a channel on."""
        if self.storage == Storage.BLOCKED:
            return self.blocks(name, shape, channel)
        return Value(name, shape, self.storage, self.element, self.stride, self, channel, steps=self.steps)

    def from_element(self, offset: int) -> Value:
        """The same memory as row-major, from an element on."""
        if self.storage == Storage.FLAT and not offset:
            return self
        return Value(self.name, self.shape, Storage.FLAT, self.element, 0, self, offset)

    def lanes(self) -> Value:
        """A blocked tensor as NHWC: each block of channels is an image of its own."""
        batch, blocks, height, width, lanes = blocked_shape(self.shape, self.block)
        shape = (batch * blocks, lanes, height, width)
        return Value(self.name, shape, Storage.NHWC, self.element, lanes, self)

    def words(self) -> Value:
        """A blocked tensor of bytes as `lanes` of floats, each of them four bytes: for what only moves them."""
        batch, blocks, height, width, lanes = blocked_shape(self.shape, self.block)
        count, shape = lanes // 4, (batch * blocks, lanes // 4, height, width)
        return Value(self.name, shape, Storage.NHWC, ElementType.F32, count, self.root, self.root_offset // 4)

    def reordered(self, storage: Storage, block: int) -> Value | None:
        """The same memory as a blocked tensor, or a blocked tensor in another storage, where that is so; else None."""
        batch, channels, height, width = self.shape
        dense = self.storage == Storage.FLAT or self.stride == channels or batch * height * width == 1
        if storage == Storage.BLOCKED:
            same = self.storage == Storage.NHWC and channels == block == self.stride
            if dense and channels % block == 0 and (height * width == 1 or same):
                return Value(self.name, self.shape, storage, self.element, 0, self, block=block)
            return None
        if storage == Storage.NHWC and channels <= block:
            return Value(self.name, self.shape, storage, self.element, block, self)
        if is_blocked_row_major(self.shape, block):
            return Value(self.name, self.shape, storage, self.element, channels * (storage == Storage.NHWC), self)
        return None

    @property
    def is_row_major(self) -> bool:
        """Whether the elements lie row-major in origin order without gaps."""
        if self.storage == Storage.BLOCKED:
            return is_blocked_row_major(self.shape, self.block)
        return all(
            size == 1 or stride == expected
            for size, stride, expected in zip(self.shape, self.strides, row_major(self.shape), strict=True)
        )


def row_major(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Strides of a dense row-major array, in elements."""
    return tuple(math.prod(shape[axis + 1 :]) for axis in range(len(shape)))
