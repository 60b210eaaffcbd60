"""Rows of Resize."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from runtime.errors import ModelError
from runtime.operator_row import FIXED, AttributeKind, Operator
from runtime.shape_functions import Attributes, Shape, require_rank


def resize(shapes: Sequence[Shape], attributes: Attributes) -> Shape:
    """(n, channels, *sizes) of images."""
    require_rank(shapes[0], 4, "the input")
    if len(attributes["scales"]) != 2 or min(attributes["scales"]) <= 0:
        raise ModelError(f"scales are {attributes['scales']}; two positive numbers are needed")
    return (*shapes[0][:2], *attributes["sizes"])


RESIZE_MODES = ("nearest", "linear")
RESIZE_COORDINATES = ("half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric")
RESIZE_ROUNDING = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")
_RESIZE: Mapping[str, AttributeKind] = {
    "mode": RESIZE_MODES,
    "coordinate_transformation_mode": RESIZE_COORDINATES,
    "nearest_mode": RESIZE_ROUNDING,
    "sizes": "pair",
    "scales": "floats",
}


OPERATORS = {"Resize": Operator((1, 1), resize, _RESIZE, format=FIXED)}
