"""Computes functions of each element in NumPy."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from runtime.activations import ACTIVATION_OF
from runtime.graph import Array
from runtime.oracle import Compute, first_input, sigmoid
from runtime.shape_functions import Attributes


def _clip(x: Array, attributes: Attributes) -> Array:
    return np.minimum(np.maximum(x, attributes["alpha"]), attributes["beta"])


def _leaky_relu(x: Array, attributes: Attributes) -> Array:
    return np.where(x < 0, x * attributes["alpha"], x)


def _elu(x: Array, attributes: Attributes) -> Array:
    return np.where(x < 0, attributes["alpha"] * np.expm1(np.minimum(x, 0)), x)


def _hard_sigmoid(x: Array, attributes: Attributes) -> Array:
    return np.asarray(np.clip(attributes["alpha"] * x + attributes["beta"], 0, 1))


def _gelu(x: Array) -> Array:
    return np.asarray(0.5 * x * (1 + _erf(x / math.sqrt(2))))


def _gelu_tanh(x: Array) -> Array:
    return np.asarray(0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))))


_erf = np.vectorize(math.erf, otypes=[np.float64])
ACTIVATIONS: Mapping[str, Callable[[Array, Attributes], Array]] = {
    "none": lambda x, _: x,
    "relu": lambda x, _: np.maximum(x, 0),
    "clip": _clip,
    "sigmoid": lambda x, _: sigmoid(x),
    "tanh": lambda x, _: np.tanh(x),
    "leaky_relu": _leaky_relu,
    "elu": _elu,
    "hard_sigmoid": _hard_sigmoid,
    "hard_swish": lambda x, _: x * np.clip(x / 6 + 0.5, 0, 1),
    "gelu": lambda x, _: _gelu(x),
    "gelu_tanh": lambda x, _: _gelu_tanh(x),
    "swish": lambda x, attributes: x * sigmoid(attributes["alpha"] * x),
    "mish": lambda x, _: x * np.tanh(np.logaddexp(x, 0)),
    "selu": lambda x, attributes: attributes["beta"] * _elu(x, attributes),
    "celu": lambda x, attributes: attributes["alpha"] * _elu(x / attributes["alpha"], {"alpha": 1}),
}
_ARITHMETIC: Mapping[str, Callable[..., Any]] = {
    "Add": np.add,
    "Sub": np.subtract,
    "Mul": np.multiply,
    "Div": lambda a, b: np.trunc(np.true_divide(a, b)) if a.dtype.kind in "iu" else np.divide(a, b),
    "Max": np.maximum,
    "Min": np.minimum,
    "Pow": np.power,
    "Exp": np.exp,
    "Log": np.log,
    "Sqrt": np.sqrt,
    "Reciprocal": np.reciprocal,
    "Neg": np.negative,
    "Abs": np.abs,
    "Floor": np.floor,
    "Ceil": np.ceil,
    "Erf": _erf,
    "Round": np.round,
    "Softplus": lambda x: np.logaddexp(x, 0),
    "Sin": np.sin,
    "Cos": np.cos,
    "Identity": np.array,
    "PRelu": lambda x, slope: np.where(x < 0, x * slope, x),
}


def _elementwise(function: Callable[..., Any]) -> Compute:
    return lambda arguments, attributes: function(*arguments)


def _activation(function: Callable[[Array, Attributes], Array]) -> Compute:
    return lambda arguments, attributes: function(first_input(arguments), attributes)


COMPUTE: Mapping[str, Compute] = {
    **{op: _elementwise(function) for op, function in _ARITHMETIC.items()},
    **{op: _activation(ACTIVATIONS[name]) for op, name in ACTIVATION_OF.items()},
}
