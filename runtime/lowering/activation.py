"""Translates a node's activation attributes to the ACTIVATION option of kernels and its two numbers."""

import math
from collections.abc import Mapping
from typing import Any

from runtime.semantics.unary import ACTIVATIONS, Unary

_CODES = {
    "none": Unary.CLAMP,
    "relu": Unary.CLAMP,
    **{code.function.activation: code for code in ACTIVATIONS},
}
_CLAMPS = {"none": (-math.inf, math.inf), "relu": (0.0, math.inf)}


def activation_code(attrs: Mapping[str, Any]) -> tuple[int, dict[str, float]]:
    """Returns the ACTIVATION code of a fused operator, and the kernel arguments `act_a` and `act_b`."""
    name = attrs.get("activation", "none")
    low, high = _CLAMPS.get(name, (float(attrs.get("alpha", 0.0)), float(attrs.get("beta", 0.0))))
    return int(_CODES[name]), {"act_a": low, "act_b": high}
