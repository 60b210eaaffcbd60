"""Rows of normalisation, softmax, scale and shift."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from runtime.errors import ModelError
from runtime.formats import rewriting
from runtime.operators.row import FIXED, AttributeKind, Operator, transposable
from runtime.semantics.shape_functions import Attributes, Shape, same, same_with_axis, shape_list


def scale_shift(shapes: Sequence[Shape], attributes: Attributes) -> Shape:
    """The first input's, whose channels (axis 1) have a scale and a shift."""
    x = shapes[0]
    if len(x) < 2 or any(shape != (x[1],) for shape in shapes[1:]):
        raise ModelError(f"scale and shift of shapes {shape_list(shapes[1:])} do not fit an input of shape {x}")
    return x


def layer_normalization(shapes: Sequence[Shape], attributes: Attributes) -> Shape:
    """The first input's, normalised along its last axes or an image's channels."""
    x, axes = shapes[0], attributes["axes"]
    is_last = min(axes, default=-1) >= 0 and axes == tuple(range(len(x) - len(axes), len(x)))
    if not is_last and not (axes == (1,) and len(x) == 4):
        raise ModelError(f"axes {axes} of an input of shape {x}; the last ones, or an image's channels, are needed")
    _fits_normalised(shapes, tuple(x[axis] for axis in axes))
    return x


def group_normalization(shapes: Sequence[Shape], attributes: Attributes) -> Shape:
    """The first input's, normalised by groups of channels."""
    x, groups = shapes[0], attributes["groups"]
    if len(x) < 2 or x[1] % groups:
        raise ModelError(f"an input of shape {x} has no channels that make {groups} groups")
    _fits_normalised(shapes, x[1:2])
    return x


def _fits_normalised(shapes: Sequence[Shape], wanted: Shape) -> None:
    if any(shape not in (wanted, ()) for shape in shapes[1:]):
        raise ModelError(f"scale and shift of shapes {shape_list(shapes[1:])} are not of shape {wanted}")


_LRN: Mapping[str, AttributeKind] = {"alpha": "float", "beta": "float", "bias": "float", "size": "count"}
_LAYER_NORMALIZATION: Mapping[str, AttributeKind] = {"axes": "ints", "epsilon": "float", "centered": "bool"}
_GROUP_NORMALIZATION: Mapping[str, AttributeKind] = {"groups": "count", "epsilon": "float"}


OPERATORS = {
    "BatchNormalization": Operator((3, 3), scale_shift, fusible=True, format=FIXED),
    "LRN": Operator((1, 1), same, _LRN, format=FIXED),
    **{
        op: Operator((1, 1), same_with_axis, {"axis": "int"}, format=transposable(rewriting.on_axis))
        for op in ("Softmax", "LogSoftmax")
    },
    "LayerNormalization": Operator(
        (1, 3), layer_normalization, _LAYER_NORMALIZATION, fusible=True, format=transposable(rewriting.normalized)
    ),
    "GroupNormalization": Operator((1, 3), group_normalization, _GROUP_NORMALIZATION, fusible=True, format=FIXED),
}
