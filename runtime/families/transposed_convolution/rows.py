"""Rows of the transposed convolution."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from runtime.errors import ModelError
from runtime.families.convolution.rows import CONV_ATTRIBUTES
from runtime.families.transposed_convolution.geometry import transposed_size
from runtime.operators.row import FIXED, AttributeKind, Operator
from runtime.semantics.shape_functions import Attributes, Shape, require_bias, require_rank


def conv_transpose(shapes: Sequence[Shape], attributes: Attributes) -> Shape:
    """(n, out channels, height, width) of a transposed convolution."""
    x, w = shapes[0], shapes[1]
    require_rank(x, 4, "the input")
    require_rank(w, 4, "the filter")
    if x[1] != w[0] or x[1] % attributes["group"]:
        raise ModelError(f"filter {w} in {attributes['group']} group(s) does not fit an input of shape {x}")
    pads, extra = attributes["pads"], attributes["output_padding"]
    if len(pads) != 4 or len(extra) != 2 or min(extra) < 0:
        raise ModelError(f"pads {pads} and output_padding {extra}; four and two numbers, the latter not negative")
    sums = (pads[0] + pads[2], pads[1] + pads[3])
    geometry = zip(x[2:], w[2:], attributes["strides"], attributes["dilations"], sums, extra, strict=True)
    image = tuple(transposed_size(*axis) for axis in geometry)
    if min(image) < 1:
        raise ModelError(f"pads {pads} cut all of the output away")
    out = (x[0], w[1] * attributes["group"], *image)
    require_bias(shapes, out[1])
    if len(shapes) > 3 and shapes[3] != out:
        raise ModelError(f"residual of shape {shapes[3]} does not fit an output of shape {out}")
    return out


def _conv_transpose_macs(shapes: Sequence[Shape], output: Shape) -> int:
    return math.prod(shapes[0]) * math.prod(shapes[1][1:])


_CONV_TRANSPOSE: Mapping[str, AttributeKind] = {**CONV_ATTRIBUTES, "pads": "ints", "output_padding": "ints"}


OPERATORS = {
    "ConvTranspose": Operator(
        (2, 4), conv_transpose, _CONV_TRANSPOSE, fusible=True, macs=_conv_transpose_macs, format=FIXED
    )
}
