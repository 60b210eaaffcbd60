"""Normalisations of farmrt's CPU: of blocks of channels, and of rows of eight bits; they have no OpenCL."""

from runtime.kernels.blocked import blocked_row

BLOCKED_NORMALIZATION = blocked_row(
    "blocked_normalization", "GroupNormalization", "x s t y", "batch channels groups pixels", "epsilon act_a act_b"
)
QUANTIZED_NORMALIZATION = blocked_row(
    "quantized_normalization",
    "LayerNormalization",
    "x:bytes s t y:bytes",
    "rows channels centered:0-1 zero:0-255",
    "epsilon act_a act_b",
)

BLOCK_KERNELS = (BLOCKED_NORMALIZATION, QUANTIZED_NORMALIZATION)
