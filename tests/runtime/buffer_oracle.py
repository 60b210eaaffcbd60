"""What the oracles of buffer kernels (tests/runtime/families) are made of."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from runtime.kernels.codes import BYTES_FIXED, BYTES_ONCE, Residual
from runtime.semantics import fixed_point
from runtime.semantics.unary import FUNCTIONS

Array = NDArray[np.float64]
Arrays = Mapping[str, Array]
Dims = Mapping[str, int]
Floats = Mapping[str, float]


def activate(v: Array, defines: Dims, floats: Floats) -> Array:
    """The fused activation."""
    return unary_function(defines.get("ACTIVATION", 0), v, floats.get("act_a", 0), floats.get("act_b", 0))


def unary_function(code: int, v: Array, a: float, b: float) -> Array:
    """Computes a function by its code: by its own oracle, which is compared with ONNX Runtime."""
    with np.errstate(over="ignore", invalid="ignore"):
        return FUNCTIONS[code].computed(v, {"alpha": a, "beta": b})


def taps(x: Array, dims: Dims, fill: float) -> Array:
    """Every input under every window: [batch, out_h, out_w, k_h, k_w, channels]; `fill` in the padding."""
    image = x.reshape(dims["batch"], dims["in_h"], dims["in_w"], -1)
    shape = (dims["batch"], dims["out_h"], dims["out_w"], dims["k_h"], dims["k_w"], image.shape[-1])
    result = np.full(shape, fill)
    for oh, ow, i, j in itertools.product(*map(range, shape[1:5])):
        row = oh * dims["stride_h"] - dims["pad_t"] + i * dims["dil_h"]
        column = ow * dims["stride_w"] - dims["pad_l"] + j * dims["dil_w"]
        if 0 <= row < dims["in_h"] and 0 <= column < dims["in_w"]:
            result[:, oh, ow, i, j] = image[:, row, column]
    return result


def finish(v: Array, arrays: Arrays, defines: Dims, floats: Floats) -> Array:
    """Adds bias and residual to [pixels, channels] and applies the activation; or rounds whole sums by fixed point."""
    if (code := defines.get("BYTES", 0)) & BYTES_FIXED:
        bias, multiplier, shift = arrays["b"].reshape(3, -1)
        return fixed_steps(v + bias, multiplier, shift, floats, bool(code & BYTES_ONCE))
    v = v + arrays["b"]
    if residual := defines.get("RESIDUAL"):
        v = v * arrays["residual"] if residual == Residual.MULTIPLY else v + arrays["residual"]
    result = activate(v, defines, floats)
    return np.rint(result) - floats["act_a"] if defines.get("BYTES", 0) & 1 else result


def fixed_steps(v: Array, multiplier: Any, shift: Any, floats: Floats, once: bool = False) -> Array:
    """Whole numbers times factors, as steps from act_a to act_b that are stored as bytes."""
    product = fixed_point.multiply_once if once else fixed_point.multiply
    steps = product(v.astype(np.int64), np.asarray(multiplier, np.int64), np.asarray(shift, np.int64))
    return np.clip(steps, floats["act_a"], floats["act_b"]) - floats["act_a"]


def nest(array: Array, extents: list[int], strides: list[int]) -> Array:
    """Views flat elements as nested loops with these extents and strides read them."""
    return as_strided(array, extents, [stride * 8 for stride in strides], writeable=False)


def indexed(dims: Dims, prefix: str, rank: int) -> list[int]:
    return [dims[f"{prefix}{axis}"] for axis in range(rank)]
