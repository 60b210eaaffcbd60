"""What tests launch the kernels of matrix with, and what they compute."""

from __future__ import annotations

import dataclasses

import numpy as np

from runtime.kernels.codes import BYTES_ONCE, Residual
from runtime.semantics.unary import Unary
from runtime.types import Dot
from tests.runtime.buffer_oracle import Array, Arrays, Dims, Floats, activate, finish, indexed, nest
from tests.runtime.kernel_cases import TABLE, UNBOUNDED, Case, by_dots, by_fixed_point, fused, in_bytes, in_integers


def fully_connected(rows: int, in_c: int, out_c: int, activation: int = 0, residual: int = 0) -> Case:
    return fused("fully_connected", {"rows": rows, "in_c": in_c, "out_c": out_c}, activation, residual)


def with_row(case: Case, epsilon: float = 0.0, gated: bool = False) -> Case:
    """The case of rows that are normalised with this epsilon, where it is not 0, or of a layer that another gates."""
    defines = dict(case.defines) | ({"GATED": 1} if gated else {})
    if epsilon:
        defines["ROW_EPSILON"] = int(np.float32(epsilon).view(np.int32))
    return dataclasses.replace(case, defines=defines)


def matmul(batch: int, m: int, k: int, n: int, one_a: bool = False, one_b: bool = False) -> Case:
    a, b = (0, 0, 0 if one_a else m * k, k, 1), (0, 0, 0 if one_b else k * n, n, 1)
    return strided_matmul((1, 1, batch, m, k, n), a, b, (0, 0, m * n, n, 1))


def strided_matmul(extents: tuple[int, ...], *strides: tuple[int, ...]) -> Case:
    """Extents d0-2, m, k, n; for a, b and the output the strides of the first three, of rows and of columns."""
    dims = dict(zip(("d0", "d1", "d2", "m", "k", "n"), extents, strict=True))
    for tensor, axes, steps in zip("aby", ("mk", "kn", "mn"), strides, strict=True):
        names = [f"{tensor}s0", f"{tensor}s1", f"{tensor}s2", *(tensor + axis for axis in axes)]
        dims |= dict(zip(names, steps, strict=True))
    return Case(TABLE["matmul"], dims)


def compute_fully_connected(arrays: Arrays, dims: Dims, defines: Dims, floats: Floats) -> Array:
    rows = {name: arrays[name].reshape(dims["rows"], -1) for name in ("x", "residual")}
    x = rows["x"]
    if "ROW_EPSILON" in defines:
        epsilon = np.array(defines["ROW_EPSILON"], np.int32).view(np.float32)
        x = x / np.sqrt((x * x).mean(axis=1, keepdims=True) + epsilon)
    if "GATED" in defines:
        gate, factor = (x @ w.T + b for w, b in zip(arrays["w"], arrays["b"].reshape(2, -1), strict=True))
        return activate(gate, defines, floats) * factor
    return finish(x @ arrays["w"][0].T, arrays | rows, defines, floats)


def compute_matmul(arrays: Arrays, dims: Dims, defines: Dims, floats: Floats) -> Array:
    batch = [dims[f"d{axis}"] for axis in range(3)]
    a, b = (
        nest(arrays[t], [*batch, *(dims[e] for e in es)], [*indexed(dims, f"{t}s", 3), *(dims[t + e] for e in es)])
        for t, es in (("a", "mk"), ("b", "kn"))
    )
    return a @ b


CASES: dict[str, Case] = {
    "fully_connected 1 row": fully_connected(1, 37, 21),
    "fully_connected rows": fully_connected(6, 20, 33, Unary.TANH),
    "fully_connected sum": fully_connected(3, 20, 33, Unary.CLAMP, Residual.ADD),
    "fully_connected gate": fully_connected(2, 20, 39, Unary.TANH, Residual.MULTIPLY),
    "fully_connected normalised": with_row(fully_connected(1, 37, 21, Unary.CLAMP, Residual.ADD), epsilon=0.25),
    "fully_connected gated": with_row(fully_connected(1, 20, 75, Unary.SWISH), gated=True),
    "fully_connected normalised, gated": with_row(fully_connected(2, 36, 43, Unary.SWISH), 1e-5, gated=True),
    "fully_connected one": fully_connected(1, 1, 1),
    "fully_connected 8 bits": in_integers(fully_connected(1, 68, 43), 8),
    "fully_connected 4 bits": in_integers(fully_connected(2, 72, 43, Unary.TANH), 4),
    "fully_connected 8 bits in groups": in_integers(fully_connected(3, 128, 20, residual=Residual.ADD), 8, 64),
    "fully_connected 4 bits in groups": in_integers(fully_connected(1, 96, 37), 4, 32),
    "fully_connected of bytes": in_bytes(in_integers(fully_connected(2, 68, 43), 8), 5),
    "fully_connected by fixed point": by_fixed_point(in_integers(fully_connected(2, 68, 43), 8), 43, BYTES_ONCE),
    "fully_connected dots": by_dots(in_bytes(in_integers(fully_connected(3, 132, 20), 8), 5), Dot.ARM),
    "matmul": matmul(3, 5, 7, 19),
    "matmul one b": matmul(2, 4, 8, 16, one_b=True),
    "matmul one a": matmul(2, 9, 3, 1, one_a=True),
    "matmul heads": strided_matmul((2, 1, 3, 5, 8, 19), (120, 0, 8, 24, 1), (456, 0, 8, 1, 24), (285, 0, 95, 19, 1)),
    "matmul broadcast": strided_matmul(
        (2, 3, 2, 7, 5, 17), (0, 70, 35, 5, 1), (255, 85, 0, 17, 1), (714, 238, 17, 34, 1)
    ),
}
ORACLES = {"fully_connected": compute_fully_connected, "matmul": compute_matmul}
IMAGE_CASES = {
    "fully_connected": ({"batch": 2, "in_h": 2, "in_w": 3, "in_c": 6, "out_c": 9}, UNBOUNDED, {"ACTIVATION": 0})
}
