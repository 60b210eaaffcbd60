"""Translates a node's activation attributes to the ACTIVATION option of kernels and its two numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from runtime.kernels.codes import Activation

_CODES = {
    "none": Activation.CLAMP,
    "relu": Activation.CLAMP,
    "clip": Activation.CLAMP,
    "sigmoid": Activation.SIGMOID,
    "tanh": Activation.TANH,
    "leaky_relu": Activation.LEAKY_RELU,
    "elu": Activation.ELU,
    "hard_sigmoid": Activation.HARD_SIGMOID,
    "hard_swish": Activation.HARD_SWISH,
    "gelu": Activation.GELU,
    "gelu_tanh": Activation.GELU_TANH,
    "swish": Activation.SWISH,
    "mish": Activation.MISH,
    "selu": Activation.SELU,
    "celu": Activation.CELU,
}
_CLAMPS = {"none": (-math.inf, math.inf), "relu": (0.0, math.inf)}


def activation_code(attrs: Mapping[str, Any]) -> tuple[int, dict[str, float]]:
    """Returns the ACTIVATION code of a fused operator, and the kernel arguments `act_a` and `act_b`."""
    name = attrs.get("activation", "none")
    low, high = _CLAMPS.get(name, (float(attrs.get("alpha", 0.0)), float(attrs.get("beta", 0.0))))
    return int(_CODES[name]), {"act_a": low, "act_b": high}
