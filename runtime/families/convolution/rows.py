"""Rows of the convolution."""

import math
from collections.abc import Mapping, Sequence

from runtime.errors import ModelError
from runtime.operators.row import FIXED, AttributeKind, Operator
from runtime.semantics.shape_functions import Attributes, Shape, require_bias, require_rank, window_outputs


def conv(shapes: Sequence[Shape], attributes: Attributes) -> Shape:
    """(n, out channels, height, width) of a convolution; inputs x, filter, bias, residual."""
    x, w = shapes[0], shapes[1]
    require_rank(x, 4, "the input")
    require_rank(w, 4, "the filter")
    group = attributes["group"]
    if x[1] != w[1] * group or w[0] % group:
        raise ModelError(f"filter {w} in {group} group(s) does not fit an input of shape {x}")
    window = tuple(d * (k - 1) + 1 for k, d in zip(w[2:], attributes["dilations"], strict=True))
    out = (x[0], w[0], *window_outputs(x[2:], window, attributes["strides"], attributes["pads"]))
    require_bias(shapes, w[0])
    if len(shapes) > 3 and shapes[3] != out:
        raise ModelError(f"residual of shape {shapes[3]} does not fit an output of shape {out}")
    return out


def _conv_macs(shapes: Sequence[Shape], output: Shape) -> int:
    return math.prod(output) * math.prod(shapes[1][1:])


CONV_ATTRIBUTES: Mapping[str, AttributeKind] = {
    "strides": "pair",
    "pads": "sides",
    "dilations": "pair",
    "group": "count",
}


OPERATORS = {"Conv": Operator((2, 4), conv, CONV_ATTRIBUTES, fusible=True, macs=_conv_macs, format=FIXED)}
