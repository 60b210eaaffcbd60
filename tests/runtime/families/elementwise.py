"""What tests launch the kernels of elementwise with, and what they compute."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from runtime.kernels.codes import Binary
from runtime.semantics.unary import Unary
from tests.runtime.buffer_oracle import Array, Arrays, Dims, Floats, activate, indexed, nest, unary_function
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
    return unary_function(Unary(defines["UNARY"]), x, floats["alpha"], floats["beta"])


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
ORACLES = {"unary": compute_unary, "binary": compute_binary}
IMAGE_CASES = {
    "binary": (EXTENTS | OPERANDS, UNBOUNDED, {"BINARY": 0, "ACTIVATION": 0}),
    "unary": (EXTENTS, (-0.5, 0.5), {"UNARY": 0}),
}
