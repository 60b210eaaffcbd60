"""Rows of quantised operators, each as ONNX defines it.

    QuantizeLinear(x, scale, zero?; axis, block_size, dtype)        round(x / scale) + zero, saturated
    DequantizeLinear(x, scale, zero?; axis, block_size, dtype)      (x - zero) * scale
    QLinearConv(x, scale, zero, w, scale, zero, y scale, y zero, b?; strides, pads, dilations, group, dtype)
    QLinearMatMul(a, scale, zero, b, scale, zero, y scale, y zero; dtype)
    ConvInteger(x, w, zero?, zero?; strides, pads, dilations, group, dtype)      sums in int32
    MatMulInteger(a, b, zero?, zero?; dtype)

A scale and a zero point are one number, one for each index of `axis`, or one for each `block_size` indices of it.
`axis` and `block_size` are 0 where they do not count. Filters have them along axis 0, matrices for rows on the left and
for columns on the right. Pads are all begins, then all ends. `dtype`: of the result.
"""

import math
from collections.abc import Mapping, Sequence

import numpy as np

from runtime.errors import ModelError
from runtime.families.matrix.definition import matmul
from runtime.importers.windows import Windows
from runtime.operators.row import DTYPES, AttributeKind, MacsFunction, Operator
from runtime.semantics.shape_functions import Attributes, Shape, shape_list

_PARAMETERS: Mapping[str, AttributeKind] = {"axis": "int", "block_size": "int", "dtype": DTYPES}
_WINDOWS: Mapping[str, AttributeKind] = {
    **dict.fromkeys(("strides", "pads", "dilations"), "ints"),
    "group": "count",
    "dtype": DTYPES,
}


def _misfit(own: Shape, x: Shape) -> ModelError:
    return ModelError(f"a scale or zero point of shape {own} does not fit a tensor of shape {x}")


def _each_element(shapes: Sequence[Shape], attributes: Attributes) -> Shape:
    x, axis, block = shapes[0], attributes["axis"], attributes["block_size"]
    for own in shapes[1:]:
        if block:
            others = own[:axis] + own[axis + 1 :] == x[:axis] + x[axis + 1 :]
            fits = len(own) == len(x) and others and block > 0 and own[axis] * block >= x[axis]
        else:
            fits = math.prod(own) == 1 or (0 <= axis < len(x) and math.prod(own) == x[axis])
        if not fits:
            raise _misfit(own, x)
    return x


def windows_of(filters: Shape, attributes: Attributes) -> Windows:
    """The windows of a convolution."""
    pads = attributes["pads"]
    return Windows(filters[2:], attributes["strides"], attributes["dilations"], pads, pads)


def _convolution(x: Shape, w: Shape, zeros: Sequence[Shape], attributes: Attributes) -> Shape:
    """Of x (n, c, ...) and filters (f, c / group, ...); a scale or zero point of x is one number."""
    group, rank = attributes["group"], len(x) - 2
    lengths = [len(attributes[name]) for name in ("strides", "dilations", "pads")]
    if len(x) != len(w) or rank < 1 or lengths != [rank, rank, 2 * rank]:
        raise ModelError(f"shapes {shape_list((x, w))} with windows of {lengths[0]} axes; one spatial axis or more")
    if x[1] != w[1] * group or w[0] % group:
        raise ModelError(f"filter {w} in {group} group(s) does not fit an input of shape {x}")
    for own, tensor, most in zip(zeros, (x, w), (1, w[0]), strict=False):
        if math.prod(own) not in (1, most):
            raise _misfit(own, tensor)
    return (x[0], w[0], *windows_of(w, attributes).outputs(x[2:]))


def _one(shapes: Sequence[Shape], of: Shape) -> None:
    for own in shapes:
        if math.prod(own) != 1:
            raise _misfit(own, of)


def _q_linear_conv(shapes: Sequence[Shape], attributes: Attributes) -> Shape:
    x, w = shapes[0], shapes[3]
    out = _convolution(x, w, (shapes[2], shapes[5]), attributes)
    _convolution(x, w, (shapes[1], shapes[4]), attributes)
    _one(shapes[6:8], out)
    if len(shapes) > 8 and math.prod(shapes[8]) != w[0]:
        raise ModelError(f"bias of shape {shapes[8]} does not fit {w[0]} output channels")
    return out


def _conv_integer(shapes: Sequence[Shape], attributes: Attributes) -> Shape:
    return _convolution(shapes[0], shapes[1], shapes[2:], attributes)


def _product(a: Shape, b: Shape, parameters: Sequence[Shape]) -> Shape:
    """Of two matrices, or vectors as NumPy takes them; parameters: of the left and the right one, in turns."""
    for place, own in enumerate(parameters):
        x, is_column = (b, False) if place % 2 else (a, len(own) == 1)
        if math.prod(own) != 1 and not _broadcasts((own[0], 1) if is_column else own, x):
            raise _misfit(own, x)
    if not a or not b:
        raise ModelError(f"shapes {shape_list((a, b))} do not multiply")
    wide = matmul([(1, *a) if len(a) == 1 else a, (*b, 1) if len(b) == 1 else b], {})
    return (*wide[:-2], *wide[-2:-1][: len(a) > 1], *wide[-1:][: len(b) > 1])


def _broadcasts(own: Shape, x: Shape) -> bool:
    try:
        return np.broadcast_shapes(own, x) == x
    except ValueError:
        return False


def _q_linear_matmul(shapes: Sequence[Shape], attributes: Attributes) -> Shape:
    a, a_scale, a_zero, b, b_scale, b_zero, *of_result = shapes
    out = _product(a, b, (a_scale, b_scale, a_zero, b_zero))
    _one(of_result, out)
    return out


def _matmul_integer(shapes: Sequence[Shape], attributes: Attributes) -> Shape:
    return _product(shapes[0], shapes[1], shapes[2:])


def _conv_macs(filters: int) -> MacsFunction:
    return lambda shapes, output: math.prod(output) * math.prod(shapes[filters][1:])


def _product_macs(shapes: Sequence[Shape], output: Shape) -> int:
    return math.prod(output) * shapes[0][-1]


# They stand at the border between floats and integers, or compute in integers.
INTEGER_OPERATORS = ("QuantizeLinear", "DequantizeLinear", "ConvInteger", "MatMulInteger")
OPERATORS = {
    "QuantizeLinear": Operator((2, 3), _each_element, _PARAMETERS),
    "DequantizeLinear": Operator((2, 3), _each_element, _PARAMETERS),
    "QLinearConv": Operator((8, 9), _q_linear_conv, _WINDOWS, macs=_conv_macs(3)),
    "QLinearMatMul": Operator((8, 8), _q_linear_matmul, {"dtype": DTYPES}, macs=_product_macs),
    "ConvInteger": Operator((2, 4), _conv_integer, _WINDOWS, macs=_conv_macs(1)),
    "MatMulInteger": Operator((2, 4), _matmul_integer, {"dtype": DTYPES}, macs=_product_macs),
}
