"""What tests launch the kernels of no family with: probes and conversions."""

import numpy as np

from tests.runtime.buffer_oracle import Array, Arrays, Dims, Floats
from tests.runtime.kernel_cases import EXTENTS, TABLE, Case

NCHW = {"stride_n": 90, "stride_c": 15, "stride_h": 5, "stride_w": 1}


def compute_peak_macs(arrays: Arrays, dims: Dims, defines: Dims, floats: Floats) -> Array:
    factor, step, *starts = arrays["x"]
    sums = np.resize(starts, dims["elements"]) + np.arange(12)[:, None]
    for _ in range(dims["rounds"]):
        sums = sums * factor + step
    return sums.sum(0)


CASES: dict[str, Case] = {
    **{
        f"peak_macs of {elements}": Case(TABLE["peak_macs"], {"rounds": 5, "elements": elements})
        for elements in (37, 64)
    },
}
ORACLES = {"peak_macs": compute_peak_macs}
IMAGE_CASES = {
    "buffer_to_image": (EXTENTS | NCHW, (), {"SRC_F32": 1}),
    "image_to_buffer": (EXTENTS | NCHW, (), {"DST_F32": 1}),
}
IMAGE_SHAPES = {
    "buffer_to_image": {"x": (180,)},
    "image_to_buffer": {"y": (180,)},
}
