"""Activations: the operators that they are, and their parameters.

Parameters, both as attributes of the unary operator and of an operator that it is fused into:
clip: alpha = low, beta = high; leaky_relu, elu: alpha; hard_sigmoid: max(0, min(1, alpha * x + beta));
swish: x * sigmoid(alpha * x); selu: beta * elu(x; alpha); celu: alpha * elu(x / alpha; 1).
"""

from __future__ import annotations

from collections.abc import Mapping

from runtime.graph import ACTIVATIONS
from runtime.operator_row import AttributeKind

ACTIVATION_OF = {
    "Relu": "relu",
    "Clip": "clip",
    "Sigmoid": "sigmoid",
    "Tanh": "tanh",
    "LeakyRelu": "leaky_relu",
    "Elu": "elu",
    "HardSigmoid": "hard_sigmoid",
    "HardSwish": "hard_swish",
    "Gelu": "gelu",
    "GeluTanh": "gelu_tanh",
    "Swish": "swish",
    "Mish": "mish",
    "Selu": "selu",
    "Celu": "celu",
}
ACTIVATION_PARAMETERS: Mapping[str, tuple[str, ...]] = {
    "none": (),
    "relu": (),
    "clip": ("alpha", "beta"),
    "sigmoid": (),
    "tanh": (),
    "leaky_relu": ("alpha",),
    "elu": ("alpha",),
    "hard_sigmoid": ("alpha", "beta"),
    "hard_swish": (),
    "gelu": (),
    "gelu_tanh": (),
    "swish": ("alpha",),
    "mish": (),
    "selu": ("alpha", "beta"),
    "celu": ("alpha",),
}
ACTIVATION_ATTRIBUTES: Mapping[str, AttributeKind] = {"activation": ACTIVATIONS, "alpha": "float", "beta": "float"}
