"""What tests launch the kernels of elementwise with, and what they compute."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np

from runtime.kernels.codes import BYTES_FIXED, Binary
from runtime.semantics import fixed_point
from runtime.semantics.unary import Unary
from tests.runtime.buffer_oracle import (
    Array,
    Arrays,
    Dims,
    Floats,
    activate,
    fixed_steps,
    indexed,
    nest,
    unary_function,
)
from tests.runtime.kernel_cases import ACTIVATION_FLOATS, EXTENTS, TABLE, UNBOUNDED, Case, numbered, row_major

OPERANDS = {f"{name}_{axis}": size for name in "ab" for axis, size in EXTENTS.items()}


def unary(code: int, extents: tuple[int, int, int, int], xs: tuple[int, ...] = (), ys: tuple[int, ...] = ()) -> Case:
    dims = numbered("d", extents)
    dims |= numbered("xs", xs or row_major(extents)) | numbered("ys", ys or row_major(extents))
    return Case(TABLE["unary"], dims, {"UNARY": code}, {"alpha": 0.2, "beta": 0.5})


def binary(
    code: int,
    extents: tuple[int, int, int, int],
    left: tuple[int, ...] = (),
    right: tuple[int, ...] = (),
    ys: tuple[int, ...] = (),
    activation: int = 0,
) -> Case:
    dense = row_major(extents)
    dims = numbered("d", extents) | numbered("as", left or dense) | numbered("bs", right or dense)
    floats = ACTIVATION_FLOATS[activation]
    return Case(TABLE["binary"], dims | numbered("ys", ys or dense), {"BINARY": code, "ACTIVATION": activation}, floats)


def compute_unary(arrays: Arrays, dims: Dims, defines: Dims, floats: Floats) -> Array:
    x = nest(arrays["x"], indexed(dims, "d", 4), indexed(dims, "xs", 4))
    result = unary_function(Unary(defines["UNARY"]), x, floats["alpha"], floats["beta"])
    step = (floats["beta"] - floats["alpha"]) / 255
    return np.rint(result / step) - np.rint(floats["alpha"] / step) if defines.get("BYTES") else result


def compute_binary(arrays: Arrays, dims: Dims, defines: Dims, floats: Floats) -> Array:
    a, b = (nest(arrays[t], indexed(dims, "d", 4), indexed(dims, f"{t}s", 4)) for t in "ab")
    functions: dict[Binary, Callable[[Array, Array], Array]] = {
        Binary.ADD: np.add,
        Binary.SUB: np.subtract,
        Binary.MUL: np.multiply,
        Binary.DIV: np.divide,
        Binary.MAX: np.maximum,
        Binary.MIN: np.minimum,
        Binary.POW: np.power,
        Binary.PRELU: lambda a, b: np.where(a < 0, a * b, a),
    }
    return activate(functions[Binary(defines["BINARY"])](a, b), defines, floats)


def lookup(code: int, extents: tuple[int, int, int, int], xs: tuple[int, ...] = (), ys: tuple[int, ...] = ()) -> Case:
    dims = unary(0, extents, xs, ys).dims
    return Case(TABLE["lookup"], dims, {"BYTES": code})


def in_bytes_binary(
    code: int, extents: tuple[int, int, int, int], right: tuple[int, ...] = (), factors: tuple[int, ...] = ()
) -> Case:
    """`factors`: by which it is rounded by fixed point: multipliers and shifts of both operands, and of the result."""
    numbers = {"a_scale": 0.5, "a_zero": 113.0, "b_scale": 0.25 if code == Binary.ADD else 2.0**-7, "b_zero": 100.0}
    floats = {**numbers, "act_a": -120.0, "act_b": 135.0}
    names = [f"{tensor}_{what}" for tensor in "aby" for what in ("multiplier", "shift")]
    dims = {**binary(code, extents, right=right).dims, **dict(zip(names, factors or (0,) * 6, strict=True))}
    defines = {"BINARY": code, "BYTES": 5 | (BYTES_FIXED if factors else 0)}
    return Case(TABLE["binary_bytes"], dims, defines, floats)


def compute_lookup(arrays: Arrays, dims: Dims, defines: Dims, floats: Floats) -> Array:
    x = nest(arrays["x"], indexed(dims, "d", 4), indexed(dims, "xs", 4))
    return arrays["table"][x.astype(int)]


def compute_binary_bytes(arrays: Arrays, dims: Dims, defines: Dims, floats: Floats) -> Array:
    unlimited = {**defines, "ACTIVATION": 0}, {"act_a": -np.inf, "act_b": np.inf}
    whole = {name: arrays[name] - floats[f"{name}_zero"] for name in "ab"}
    if defines["BYTES"] & BYTES_FIXED:
        if defines["BINARY"] == Binary.ADD:
            wide = {name: values.astype(np.int64) << 20 for name, values in whole.items()}
            whole = {n: fixed_point.multiply(v, dims[f"{n}_multiplier"], dims[f"{n}_shift"]) for n, v in wide.items()}
            whole["b"] = whole["b"] * int(np.sign(floats["b_scale"]))
        found = compute_binary(arrays | whole, dims, *unlimited)
        return fixed_steps(found, dims["y_multiplier"], dims["y_shift"], floats)
    reals = {name: values * floats[f"{name}_scale"] for name, values in whole.items()}
    v = compute_binary(arrays | reals, dims, *unlimited)
    return np.rint(np.clip(v, floats["act_a"], floats["act_b"])) - floats["act_a"]


CASES: dict[str, Case] = {
    **{f"unary {code.name}": unary(code, (1, 1, 1, 43)) for code in Unary},
    "unary strided": unary(Unary.TANH, (2, 3, 4, 5), (60, 20, 5, 1), (1, 2, 6, 24)),
    "unary view": unary(Unary.CLAMP, (1, 1, 6, 19), (0, 0, 25, 1), (0, 0, 19, 1)),
    **{f"binary {code.name}": binary(code, (1, 1, 1, 43)) for code in Binary},
    "binary scalar": binary(Binary.MUL, (1, 1, 3, 37), (0, 0, 37, 1), (0, 0, 0, 0)),
    "binary channel": binary(Binary.ADD, (1, 2, 5, 16), right=(0, 0, 0, 1), activation=Unary.CLAMP),
    "binary pixel": binary(Binary.MUL, (1, 2, 5, 21), right=(0, 5, 1, 0)),
    "binary strided": binary(Binary.SUB, (2, 3, 4, 5), (60, 20, 5, 1), (1, 2, 6, 24), (60, 1, 3, 12)),
    "binary view": binary(Binary.MAX, (1, 1, 6, 19), (0, 0, 25, 1), (0, 0, 19, 1), (0, 0, 22, 1), Unary.SIGMOID),
}
CASES |= {
    "unary to bytes": dataclasses.replace(
        unary(Unary.FAKE_QUANTIZE, (2, 3, 4, 19), ys=(304, 76, 19, 1)),
        defines={"UNARY": int(Unary.FAKE_QUANTIZE), "BYTES": 1},
        floats={"alpha": -0.5, "beta": 0.7},
    ),
    "lookup": lookup(5, (1, 1, 3, 43)),
    "lookup strided": lookup(5, (2, 3, 4, 5), (60, 20, 5, 1), (60, 1, 15, 3)),
    "lookup to floats": lookup(4, (2, 3, 4, 5), (60, 1, 15, 3), (60, 20, 5, 1)),
    "binary_bytes sum": in_bytes_binary(Binary.ADD, (1, 1, 5, 43)),
    "binary_bytes product of channels": in_bytes_binary(Binary.MUL, (1, 2, 5, 16), right=(0, 16, 0, 1)),
    "binary_bytes sum by fixed point": in_bytes_binary(
        Binary.ADD, (1, 1, 5, 43), factors=(2**30, 0, 1326172093, -1, 1518500250, -18)
    ),
    "binary_bytes product by fixed point": in_bytes_binary(
        Binary.MUL, (1, 2, 5, 16), right=(0, 16, 0, 1), factors=(0, 0, 0, 0, 1326172093, -6)
    ),
}
CASES["binary_bytes difference by fixed point"] = dataclasses.replace(
    (_sum := CASES["binary_bytes sum by fixed point"]), floats={**_sum.floats, "b_scale": -0.25}
)
ORACLES = {
    "unary": compute_unary,
    "lookup": compute_lookup,
    "binary": compute_binary,
    "binary_bytes": compute_binary_bytes,
}
IMAGE_CASES = {
    "binary": (EXTENTS | OPERANDS, UNBOUNDED, {"BINARY": 0, "ACTIVATION": 0}),
    "unary": (EXTENTS, (-0.5, 0.5), {"UNARY": 0}),
}
