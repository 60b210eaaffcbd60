"""Computes products of matrices in NumPy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from runtime.graph import Array
from runtime.oracle.shared import Compute
from runtime.semantics.shape_functions import Attributes


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
