"""Normalisation on farmrt's CPU over blocked activations; it has no OpenCL."""

from __future__ import annotations

from runtime.kernels.blocked import blocked_row

BLOCKED_NORMALIZATION = blocked_row(
    "blocked_normalization", "GroupNormalization", "x s t y", "batch channels groups pixels", "epsilon act_a act_b"
)

BLOCK_KERNELS = (BLOCKED_NORMALIZATION,)
