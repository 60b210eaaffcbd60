"""Element-wise operators of farmrt's CPU on blocked activations of eight bits; they have no OpenCL."""

from __future__ import annotations

from runtime.families.elementwise.definition import FACTORS
from runtime.kernels.blocked import blocked_row

QUANTIZED_BINARY = blocked_row(
    "quantized_binary",
    "Eltwise",
    "a:bytes b:bytes y:bytes",
    f"planes pixels b_pixels fixed:0-1 {FACTORS}",
    "a_zero a_scale b_zero b_scale low high",
)
QUANTIZED_LOOKUP = blocked_row(
    "quantized_lookup", "Activation", "x:bytes table:bytes y:bytes", "runs pixels x_stride y_stride"
)

BLOCK_KERNELS = (QUANTIZED_BINARY, QUANTIZED_LOOKUP)
