"""Products of matrices: rows, and what NumPy computes."""

import math
from collections.abc import Mapping, Sequence

import numpy as np

from runtime.errors import ModelError
from runtime.graph import Array
from runtime.operators.row import SOURCE, Operator
from runtime.oracle.shared import Compute
from runtime.semantics.shape_functions import Attributes, Shape, broadcast, require_bias, require_rank, shape_list


def fully_connected(shapes: Sequence[Shape], attributes: Attributes) -> Shape:
    """(..., out) of x (..., in) and weights (out, in); of residual and factor, which are like it, one may be there."""
    x, w = shapes[0], shapes[1]
    require_rank(w, 2, "the weight matrix")
    if len(x) < 2 or x[-1] != w[1]:
        raise ModelError(f"weights of shape {w} do not fit an input of shape {x}")
    require_bias(shapes, w[0])
    out = (*x[:-1], w[0])
    if any(shape not in ((), out) for shape in shapes[3:]) or (len(shapes) > 4 and shapes[3]):
        raise ModelError(f"residual and factor {shape_list(shapes[3:])}: one of the output's shape {out} is supported")
    return out


def matmul(shapes: Sequence[Shape], attributes: Attributes) -> Shape:
    """(..., m, n) of (..., m, k) and (..., k, n); the leading axes are broadcast."""
    a, b = shapes
    if min(len(a), len(b)) < 2:
        raise ModelError(f"shapes {shape_list(shapes)}: matrices of at least 2 axes are supported")
    if a[-1] != b[-2]:
        raise ModelError(f"shapes {shape_list(shapes)} do not multiply")
    return (*broadcast((a[:-2], b[:-2]), attributes), a[-2], b[-1])


def _matmul_macs(shapes: Sequence[Shape], output: Shape) -> int:
    return math.prod(output) * shapes[0][-1]


OPERATORS = {
    "FullyConnected": Operator((2, 5), fully_connected, fusible=True, macs=_matmul_macs, format=SOURCE),
    "MatMul": Operator((2, 2), matmul, macs=_matmul_macs, format=SOURCE),
}


def _fully_connected(arguments: Sequence[Array | None], attributes: Attributes) -> Array:
    x, w, bias, residual, factor = (*arguments, None, None, None)[:5]
    assert x is not None and w is not None
    out: Array = x @ w.T
    out = out if bias is None else out + bias
    out = out if residual is None else out + residual
    return out if factor is None else out * factor


def _matmul(arguments: Sequence[Array | None], attributes: Attributes) -> Array:
    a, b = arguments
    assert a is not None and b is not None
    return np.asarray(a @ b)


COMPUTE: Mapping[str, Compute] = {
    "FullyConnected": _fully_connected,
    "MatMul": _matmul,
}
