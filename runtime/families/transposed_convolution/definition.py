"""Transposed convolution: its row, and what NumPy computes."""

import math
from collections.abc import Mapping, Sequence

import numpy as np

from runtime.errors import ModelError
from runtime.families.convolution.rows import CONV_ATTRIBUTES
from runtime.families.transposed_convolution.geometry import transposed_size
from runtime.graph import Array
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


def transposed_convolution(arguments: Sequence[Array | None], attributes: Attributes) -> Array:
    """The sums of an input [n, c, h, w] with filters [c, outputs of a group, h, w], plus bias and residual."""
    x, w, bias, residual = (*arguments, None, None)[:4]
    assert x is not None and w is not None
    out = _cut(_sums(x, w, attributes), x.shape[2:], w.shape[2:], attributes)
    if bias is not None:
        out = out + bias[:, None, None]
    return np.asarray(out if residual is None else out + residual)


def _sums(x: Array, w: Array, attributes: Attributes) -> Array:
    """The full result, of which the pads have not been cut off."""
    (down, across), (below, beside), group = (attributes[key] for key in ("strides", "dilations", "group"))
    batch, channels, rows, columns = x.shape
    inputs = x.reshape(batch, group, channels // group, rows, columns)
    filters = w.reshape(group, channels // group, *w.shape[1:])
    full = np.zeros((batch, group, w.shape[1], *_extents(x.shape[2:], w.shape[2:], attributes)), np.result_type(x, w))
    for i in range(w.shape[2]):
        for j in range(w.shape[3]):
            top, left = i * below, j * beside
            place = full[
                ..., top : top + (rows - 1) * down + 1 : down, left : left + (columns - 1) * across + 1 : across
            ]
            place += np.einsum("ngchw,gco->ngohw", inputs, filters[..., i, j], optimize=True)
    return full.reshape(batch, group * w.shape[1], *full.shape[3:])


def _extents(size: Sequence[int], kernel: Sequence[int], attributes: Attributes) -> list[int]:
    geometry = zip(size, kernel, attributes["strides"], attributes["dilations"], strict=True)
    return [transposed_size(*axis, pads=0, extra=0) for axis in geometry]


def _cut(full: Array, size: Sequence[int], kernel: Sequence[int], attributes: Attributes) -> Array:
    """Cuts the pads off; a negative one, and the output padding, add zeros."""
    begins, ends = attributes["pads"][:2], attributes["pads"][2:]
    ends = [end - extra for end, extra in zip(ends, attributes["output_padding"], strict=True)]
    more = [(max(-begin, 0), max(-end, 0)) for begin, end in zip(begins, ends, strict=True)]
    wide = np.pad(full, [(0, 0), (0, 0), *more])
    rows, columns = (
        slice(max(begin, 0), length - max(end, 0))
        for begin, end, length in zip(begins, ends, wide.shape[2:], strict=True)
    )
    return wide[:, :, rows, columns]


COMPUTE = {"ConvTranspose": transposed_convolution}
