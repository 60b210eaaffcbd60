"""What tests launch the kernels of pooling with, and what they compute."""

from __future__ import annotations

import numpy as np

from runtime.kernels.codes import Pooling
from tests.runtime.buffer_oracle import Array, Arrays, Dims, Floats, taps
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


CASES: dict[str, Case] = {
    "pool max": pool(19, window((7, 8), (3, 3), (2, 2), pad=SAME, batch=2), Pooling.MAX),
    "pool average": pool(16, window((7, 8), (3, 3), (1, 1), pad=SAME), Pooling.AVERAGE),
    "pool average all": pool(5, window((6, 6), (3, 2), (2, 2), pad=(1, 1, 0, 0)), Pooling.AVERAGE, count_include_pad=1),
    "pool dilation": pool(8, window((7, 9), (2, 2), dilation=(2, 3)), Pooling.MAX),
}
ORACLES = {"pool": compute_pool}
IMAGE_CASES = {
    "pool": (SPATIAL | WINDOW | {"channels": 6, "count_include_pad": 0}, (), {"POOL": 0}),
}
