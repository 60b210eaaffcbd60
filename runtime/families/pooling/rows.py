"""Rows of pooling."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from runtime.operator_row import FIXED, AttributeKind, Operator
from runtime.shape_functions import Attributes, Shape, require_rank, window_outputs


def pool(shapes: Sequence[Shape], attributes: Attributes) -> Shape:
    """(n, channels, height, width) of a window that slides over images."""
    x = shapes[0]
    require_rank(x, 4, "the input")
    return (*x[:2], *window_outputs(x[2:], attributes["kernel"], attributes["strides"], attributes["pads"]))


_WINDOW: Mapping[str, AttributeKind] = {"kernel": "pair", "strides": "pair", "pads": "sides"}


OPERATORS = {
    "MaxPool": Operator((1, 1), pool, _WINDOW, format=FIXED),
    "AveragePool": Operator((1, 1), pool, {**_WINDOW, "count_include_pad": "bool"}, format=FIXED),
}
