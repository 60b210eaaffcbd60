"""The six axes that both operators rearrange: n, c, pixels h, w of the deep tensor, rows i and columns j of a block.

Either tensor has them in an order of its own, so both operators are a Reshape to six axes, a Transpose, and a Reshape.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from runtime.semantics.shape_functions import Shape

_WIDE = "nchiwj"
_DEEP = {"DCR": "nijchw", "CRD": "ncijhw"}


@dataclasses.dataclass(frozen=True)
class Blocks:
    """One rearrangement: which operator, its mode and block, and the shape of the tensor of many channels."""

    op: str
    mode: str
    size: int
    deep: Shape

    @classmethod
    def between(cls, op: str, mode: str, size: int, source: Shape, result: Shape) -> Blocks:
        """That of an operator whose tensors have these shapes."""
        return cls(op, mode, size, source if op == "DepthToSpace" else result)

    @property
    def wide(self) -> Shape:
        """The shape of the tensor of many pixels."""
        n, channels, h, w = self.deep
        return n, channels // self.size**2, h * self.size, w * self.size

    @property
    def split(self) -> Shape:
        """The source's shape as six axes."""
        return tuple(self.extents[axis] for axis in self._orders[0])

    @property
    def perm(self) -> Shape:
        """The permutation of the source's six axes that makes those of the result."""
        source, result = self._orders
        return tuple(source.index(axis) for axis in result)

    @property
    def extents(self) -> dict[str, int]:
        """Elements along each axis."""
        n, channels, h, w = self.deep
        return {"n": n, "c": channels // self.size**2, "h": h, "i": self.size, "w": w, "j": self.size}

    def strides(self, strides: Sequence[int], of_source: bool) -> dict[str, int]:
        """Steps along each axis of source or result, by those along its four axes."""
        n, c, h, w = strides
        if of_source != (self.op == "DepthToSpace"):
            return {"n": n, "c": c, "h": h * self.size, "i": h, "w": w * self.size, "j": w}
        order, extents = _DEEP[self.mode], self.extents
        channels = [axis for axis in order if axis in "ijc"]
        steps, step = {}, c
        for axis in reversed(channels):
            steps[axis] = step
            step *= extents[axis]
        return {"n": n, "h": h, "w": w, **steps}

    @property
    def _orders(self) -> tuple[str, str]:
        deep = _DEEP[self.mode]
        return (deep, _WIDE) if self.op == "DepthToSpace" else (_WIDE, deep)
