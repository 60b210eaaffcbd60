"""Rows of reductions."""

from __future__ import annotations

from collections.abc import Sequence

from runtime.errors import ModelError
from runtime.formats import rewriting
from runtime.operator_row import Operator, transposable
from runtime.shape_functions import Attributes, Shape


def reduce(shapes: Sequence[Shape], attributes: Attributes) -> Shape:
    """That of the input without, or with one element along, the axes that are reduced."""
    axes, keep = attributes["axes"], attributes["keepdims"]
    if any(not 0 <= axis < len(shapes[0]) for axis in axes):
        raise ModelError(f"axes {axes} are not all axes of an input of shape {shapes[0]}")
    return tuple(1 if axis in axes else size for axis, size in enumerate(shapes[0]) if keep or axis not in axes)


REDUCTIONS = ("ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin")


OPERATORS = {
    op: Operator((1, 1), reduce, {"axes": "ints", "keepdims": "bool"}, format=transposable(rewriting.reduced))
    for op in REDUCTIONS
}
