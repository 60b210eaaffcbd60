"""What tests launch the kernels of pooling with, and what they compute."""

from __future__ import annotations

import dataclasses

import numpy as np

from runtime.kernels.codes import BYTES_FIXED, Pooling
from runtime.semantics import fixed_point
from tests.runtime.buffer_oracle import Array, Arrays, Dims, Floats, fixed_steps, taps
from tests.runtime.kernel_cases import SAME, SPATIAL, TABLE, WINDOW, Case, window


def pool(channels: int, shape: dict[str, int], kind: int, count_include_pad: int = 0) -> Case:
    dims = shape | {"channels": channels, "count_include_pad": count_include_pad}
    return Case(TABLE["pool"], dims, {"POOL": kind})


def compute_pool(arrays: Arrays, dims: Dims, defines: Dims, floats: Floats) -> Array:
    if defines["POOL"] == Pooling.MAX:
        return taps(arrays["x"], dims, -np.inf).max((3, 4))
    total = taps(arrays["x"], dims, 0.0).sum((3, 4))
    inside = taps(np.ones_like(arrays["x"]), dims, 0.0).sum((3, 4))
    return total / (dims["k_h"] * dims["k_w"] if dims["count_include_pad"] else inside)


def pool_bytes(case: Case) -> Case:
    floats = {"scale": 0.75, "act_a": -100.0, "act_b": 155.0}
    dims = {**case.dims, "multiplier": 0, "shift": 0}
    return Case(TABLE["pool_bytes"], dims, {**case.defines, "BYTES": 5, "ZERO": 113}, floats)


def by_fixed_point(case: Case, multiplier: int = 0, shift: int = 0) -> Case:
    """A sum times a factor, or without one a mean of bytes, halves away from zero."""
    dims = {**case.dims, "multiplier": multiplier, "shift": shift}
    return dataclasses.replace(case, dims=dims, defines={**case.defines, "BYTES": 5 | BYTES_FIXED})


def compute_pool_bytes(arrays: Arrays, dims: Dims, defines: Dims, floats: Floats) -> Array:
    mean = compute_pool({"x": arrays["x"] - defines["ZERO"]}, dims, defines, floats)
    if defines["BYTES"] & BYTES_FIXED:
        count = taps(np.ones_like(arrays["x"]), dims, 0.0).sum((3, 4))
        sums, away = np.rint(mean * count).astype(np.int64), fixed_point.rounded_away(mean)
        factor = (dims["multiplier"], dims["shift"]) if dims["multiplier"] else (2**30, 1)
        return fixed_steps(sums if dims["multiplier"] else away, *factor, floats)
    return np.rint(np.clip(mean * floats["scale"], floats["act_a"], floats["act_b"])) - floats["act_a"]


CASES: dict[str, Case] = {
    "pool max": pool(19, window((7, 8), (3, 3), (2, 2), pad=SAME, batch=2), Pooling.MAX),
    "pool average": pool(16, window((7, 8), (3, 3), (1, 1), pad=SAME), Pooling.AVERAGE),
    "pool average all": pool(5, window((6, 6), (3, 2), (2, 2), pad=(1, 1, 0, 0)), Pooling.AVERAGE, count_include_pad=1),
    "pool dilation": pool(8, window((7, 9), (2, 2), dilation=(2, 3)), Pooling.MAX),
}
CASES |= {name.replace("pool", "pool_bytes"): pool_bytes(case) for name, case in CASES.items()}
CASES |= {
    "pool_bytes mean by fixed point": by_fixed_point(CASES["pool_bytes average"]),
    "pool_bytes sum by fixed point": by_fixed_point(CASES["pool_bytes average"], 2**31 - 12345, -3),
    "pool_bytes max by fixed point": by_fixed_point(
        dataclasses.replace(CASES["pool_bytes max"], floats={"scale": 1.0, "act_a": -113.0, "act_b": 142.0})
    ),
}
ORACLES = {"pool": compute_pool, "pool_bytes": compute_pool_bytes}
IMAGE_CASES = {
    "pool": (SPATIAL | WINDOW | {"channels": 6, "count_include_pad": 0}, (), {"POOL": 0}),
}
