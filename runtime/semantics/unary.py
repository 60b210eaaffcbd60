"""Functions of one tensor, element by element: an entry of `Unary` is all that one of them is.

From the entry follow the operator's row, its reading from ONNX, the oracle, its kernels on buffers and images and its
operator on the CPU; and, where it is an activation, that other operators fuse it.

An `expression` is OpenCL C and C99 alike: of `v`, and of the parameters `a` (alpha) and `b` (beta), each a float (in
OpenCL vectors of it, too), by operators, `?:`, functions of OpenCL that C has with an f behind the name, and entries by
name (`SIGMOID(a * v)`). Comparisons are written so that a NaN stays a NaN. `compute` is the same in NumPy.
"""

from __future__ import annotations

import dataclasses
import enum
import math
import re
from collections.abc import Callable, Mapping
from typing import Any, Self

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


def snake(name: str) -> str:
    """A name in words that are joined: `leaky_relu` of `LeakyRelu`."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


@dataclasses.dataclass(frozen=True)
class Parameter:
    """A number that nodes have: `alpha` or `beta`, with ONNX's default and ONNX's name for it where that is another."""

    name: str
    default: float = 0.0
    onnx: str = ""


@dataclasses.dataclass(frozen=True)
class UnaryFunction:
    """What an entry says.

    Attributes:
        operator: its name in the graph, and in ONNX where that has it.
        expression, compute: see the module; `compute` is given the tensor and as many numbers as there are parameters.
        parameters: alpha, or alpha and beta.
        is_activation: other operators fuse it.
        in_onnx: ONNX has an operator of the name, with these parameters.
    """

    operator: str
    expression: str
    compute: Callable[..., Any]
    parameters: tuple[Parameter, ...] = ()
    is_activation: bool = False
    in_onnx: bool = True

    @property
    def activation(self) -> str:
        """The name of the activation that is fused: `leaky_relu`."""
        return snake(self.operator)

    @property
    def parameter_names(self) -> tuple[str, ...]:
        """Its attributes in the graph."""
        return tuple(parameter.name for parameter in self.parameters)

    def computed(self, x: Array, attributes: Mapping[str, Any]) -> Array:
        """The oracle: of a tensor, with the parameters from a node's attributes."""
        return np.asarray(self.compute(x, *(attributes[name] for name in self.parameter_names)))


def sigmoid(x: Array) -> Array:
    """1 / (1 + exp(-x)), which overflows for no x."""
    small = np.exp(-np.abs(x))
    return np.asarray(np.where(x < 0, small, 1) / (1 + small))


def _elu(x: Array, alpha: float) -> Array:
    return np.where(x < 0, alpha * np.expm1(np.minimum(x, 0)), x)


def _gelu_tanh(x: Array) -> Array:
    return np.asarray(0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))))


def _activation(
    operator: str, expression: str, compute: Callable[..., Any], *parameters: Parameter, in_onnx: bool = True
) -> UnaryFunction:
    return UnaryFunction(operator, expression, compute, parameters, is_activation=True, in_onnx=in_onnx)


def _odd_rational(least: float, numerator: tuple[float, ...], denominator: tuple[float, ...]) -> str:
    """An odd function as v * P(v * v) / Q(v * v), coefficients from the constant on; 1 or -1 from |v| = `least` on.

    A quotient of polynomials stays in vectors on every CPU and driver, where the library's function is often called for
    one element after another.
    """
    quotient = f"v * ({_polynomial(numerator)}) / ({_polynomial(denominator)})"
    return f"v * v >= {least**2:.9g}f ? CLAMP(v, -1.0f, 1.0f) : {quotient}"


def _polynomial(coefficients: tuple[float, ...]) -> str:
    """Horner's form in v * v."""
    text = f"{coefficients[-1]:.9g}f"
    for coefficient in reversed(coefficients[:-1]):
        text = f"({text}) * (v * v) + {coefficient:#.9g}f"
    return text


def _fake_quantize(operator: str, steps: int) -> UnaryFunction:
    """Real values of integers: whole steps between the least and the greatest. Zero, being one of them, stays zero."""
    per_step = f"({steps}.0f / (b - a))"
    expression = f"CLAMP(rint(v * {per_step}), rint(a * {per_step}), rint(b * {per_step})) * ((b - a) / {steps}.0f)"

    def compute(x: Array, low: float, high: float) -> Array:
        step = (high - low) / steps or math.nan
        least, most = (float(np.round(limit / step)) for limit in (low, high))
        return np.asarray(np.clip(np.round(x / step), least, most) * step)

    return _activation(operator, expression, compute, Parameter("alpha"), Parameter("beta", 1.0), in_onnx=False)


_erf = np.vectorize(math.erf, otypes=[np.float64])
_ALPHA = Parameter("alpha", 1.0)
# Fitted for the least relative error, 2e-8 before rounding; both are within 4e-7 in float.
_ERF = _odd_rational(
    3.95,
    (1.12837914615, 0.190406448486, 0.0527487186229, 0.00376561591615, 0.000284882678932, 2.05008694528e-6),
    (1.0, 0.502076062329, 0.114109102467, 0.0149692140628, 0.00116253524022, 3.80917094885e-5),
)
_TANH = _odd_rational(
    9.05,
    (0.999999979465, 0.133810213862, 0.00349558308166, 2.06090004725e-5, 1.33545520910e-8),
    (1.0, 0.467143369817, 0.0258769629770, 0.000328562660565, 7.77651258995e-7),
)


class FunctionCode(enum.IntEnum):
    """Code and entry of each of some functions."""

    function: UnaryFunction

    def __new__(cls, code: int, function: UnaryFunction) -> Self:
        """A code that knows its entry."""
        member = int.__new__(cls, code)
        member._value_ = code
        member.function = function
        return member


class Unary(FunctionCode):
    """UNARY, and ACTIVATION: code and entry of each function. The codes stand in plans and never change."""

    CLAMP = (
        0,
        _activation(
            "Clip",
            "v < a ? a : v > b ? b : v",
            lambda x, low, high: np.minimum(np.maximum(x, low), high),
            *(Parameter("alpha"), Parameter("beta")),
        ),
    )
    SIGMOID = 1, _activation("Sigmoid", "1.0f / (1.0f + exp(-v))", sigmoid)
    TANH = 2, _activation("Tanh", _TANH, np.tanh)
    LEAKY_RELU = (
        3,
        _activation(
            "LeakyRelu", "v < 0.0f ? v * a : v", lambda x, a: np.where(x < 0, x * a, x), Parameter("alpha", 0.01)
        ),
    )
    ELU = 4, _activation("Elu", "v < 0.0f ? (exp(v) - 1.0f) * a : v", _elu, _ALPHA)
    HARD_SIGMOID = (
        5,
        _activation(
            "HardSigmoid",
            "CLAMP(v * a + b, 0.0f, 1.0f)",
            lambda x, a, b: np.clip(a * x + b, 0, 1),
            *(Parameter("alpha", 0.2), Parameter("beta", 0.5)),
        ),
    )
    HARD_SWISH = (
        6,
        _activation(
            "HardSwish", "v * CLAMP(v * 0.16666667f + 0.5f, 0.0f, 1.0f)", lambda x: x * np.clip(x / 6 + 0.5, 0, 1)
        ),
    )
    EXP = 7, UnaryFunction("Exp", "exp(v)", np.exp)
    LOG = 8, UnaryFunction("Log", "log(v)", np.log)
    SQRT = 9, UnaryFunction("Sqrt", "sqrt(v)", np.sqrt)
    NEG = 10, UnaryFunction("Neg", "-v", np.negative)
    ABS = 11, UnaryFunction("Abs", "fabs(v)", np.abs)
    FLOOR = 12, UnaryFunction("Floor", "floor(v)", np.floor)
    CEIL = 13, UnaryFunction("Ceil", "ceil(v)", np.ceil)
    ERF = 14, UnaryFunction("Erf", _ERF, _erf)
    RECIPROCAL = 15, UnaryFunction("Reciprocal", "1.0f / v", np.reciprocal)
    ROUND = 16, UnaryFunction("Round", "rint(v)", np.round)
    SOFTPLUS = (
        17,
        UnaryFunction("Softplus", "CLAMP(v, 0.0f, INFINITY) + log1p(exp(-fabs(v)))", lambda x: np.logaddexp(x, 0)),
    )
    SIN = 18, UnaryFunction("Sin", "sin(v)", np.sin)
    COS = 19, UnaryFunction("Cos", "cos(v)", np.cos)
    GELU = (
        20,
        _activation(
            "Gelu", "0.5f * v * (1.0f + ERF(v * 0.70710678f))", lambda x: 0.5 * x * (1 + _erf(x / math.sqrt(2)))
        ),
    )
    GELU_TANH = (
        21,
        _activation(
            "GeluTanh", "0.5f * v * (1.0f + TANH(0.79788456f * (v + 0.044715f * v * v * v)))", _gelu_tanh, in_onnx=False
        ),
    )
    SWISH = 22, _activation("Swish", "v * SIGMOID(a * v)", lambda x, a: x * sigmoid(a * x), _ALPHA)
    MISH = 23, _activation("Mish", "v * tanh(SOFTPLUS(v))", lambda x: x * np.tanh(np.logaddexp(x, 0)))
    SELU = (
        24,
        _activation(
            "Selu",
            "ELU(v, a) * b",
            lambda x, a, b: b * _elu(x, a),
            *(Parameter("alpha", 1.67326319217681884765625), Parameter("beta", 1.05070102214813232421875, "gamma")),
        ),
    )
    CELU = 25, _activation("Celu", "v < 0.0f ? (exp(v / a) - 1.0f) * a : v", lambda x, a: a * _elu(x / a, 1), _ALPHA)

    SOFTSIGN = 26, _activation("Softsign", "v / (1.0f + fabs(v))", lambda x: x / (1 + np.abs(x)))
    THRESHOLDED_RELU = (
        27,
        _activation("ThresholdedRelu", "v <= a ? 0.0f : v", lambda x, a: np.where(x <= a, 0, x), _ALPHA),
    )
    FAKE_QUANTIZE = (28, _fake_quantize("FakeQuantize", 255))
    FAKE_QUANTIZE16 = (29, _fake_quantize("FakeQuantize16", 65535))


FUNCTIONS: Mapping[int, UnaryFunction] = {int(code): code.function for code in Unary}
ACTIVATIONS = tuple(code for code in Unary if code.function.is_activation)
