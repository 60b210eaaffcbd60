"""Rows of DepthToSpace and SpaceToDepth.

A block is `blocksize` x `blocksize` pixels (i, j) of a channel c. The deep tensor has them as channels: in the order
(i, j, c) where `mode` is DCR (TensorFlow's), (c, i, j) where it is CRD (PyTorch's pixel_shuffle).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from runtime.errors import ModelError
from runtime.operator_row import FIXED, AttributeKind, Operator
from runtime.shape_functions import Attributes, Shape, require_rank


def _wide(shapes: Sequence[Shape], attributes: Attributes) -> Shape:
    """That of DepthToSpace: fewer channels, more pixels."""
    require_rank(shapes[0], 4, "the input")
    n, channels, height, width = shapes[0]
    size = attributes["blocksize"]
    if channels % size**2:
        raise ModelError(f"{channels} channels do not split into blocks of {size} x {size} pixels")
    return n, channels // size**2, height * size, width * size


def _deep(shapes: Sequence[Shape], attributes: Attributes) -> Shape:
    """That of SpaceToDepth: more channels, fewer pixels."""
    require_rank(shapes[0], 4, "the input")
    n, channels, height, width = shapes[0]
    size = attributes["blocksize"]
    if height % size or width % size:
        raise ModelError(f"{height} x {width} pixels do not split into blocks of {size} x {size}")
    return n, channels * size**2, height // size, width // size


MODES = ("DCR", "CRD")
_ATTRIBUTES: Mapping[str, AttributeKind] = {"blocksize": "count", "mode": MODES}

OPERATORS = {
    "DepthToSpace": Operator((1, 1), _wide, _ATTRIBUTES, format=FIXED),
    "SpaceToDepth": Operator((1, 1), _deep, _ATTRIBUTES, format=FIXED),
}
