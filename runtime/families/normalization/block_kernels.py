"""Normalisation of farmrt's CPU between rows of eight bits; it has no OpenCL."""

from __future__ import annotations

from runtime.kernels.blocked import blocked_row

QUANTIZED_NORMALIZATION = blocked_row(
    "quantized_normalization",
    "LayerNormalization",
    "x:bytes s t y:bytes",
    "rows channels centered:0-1 zero:0-255",
    "epsilon act_a act_b",
)

BLOCK_KERNELS = (QUANTIZED_NORMALIZATION,)
