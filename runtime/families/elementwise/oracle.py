"""Computes functions of each element in NumPy."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from runtime.graph import Array
from runtime.oracle.shared import Compute, first_input
from runtime.semantics import unary
from runtime.semantics.shape_functions import Attributes

ACTIVATIONS: Mapping[str, Callable[[Array, Attributes], Array]] = {
    "none": lambda x, _: x,
    "relu": lambda x, _: np.maximum(x, 0),
    **{code.function.activation: code.function.computed for code in unary.ACTIVATIONS},
}
_ARITHMETIC: Mapping[str, Callable[..., Any]] = {
    "Add": np.add,
    "Sub": np.subtract,
    "Mul": np.multiply,
    "Div": lambda a, b: np.trunc(np.true_divide(a, b)) if a.dtype.kind in "iu" else np.divide(a, b),
    "Max": np.maximum,
    "Min": np.minimum,
    "Pow": np.power,
    "Identity": np.array,
    "PRelu": lambda x, slope: np.where(x < 0, x * slope, x),
}


def _elementwise(function: Callable[..., Any]) -> Compute:
    return lambda arguments, attributes: function(*arguments)


def _unary(function: Callable[[Array, Attributes], Array]) -> Compute:
    return lambda arguments, attributes: function(first_input(arguments), attributes)


COMPUTE: Mapping[str, Compute] = {
    **{op: _elementwise(function) for op, function in _ARITHMETIC.items()},
    **{code.function.operator: _unary(code.function.computed) for code in unary.Unary},
    "Relu": _unary(ACTIVATIONS["relu"]),
}
