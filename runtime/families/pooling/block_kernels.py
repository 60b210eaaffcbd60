"""Pooling of farmrt's CPU on blocked activations."""

from __future__ import annotations

from runtime.kernels.blocked import blocked_row
from runtime.kernels.spec import WINDOW

BLOCKED_POOL = blocked_row(
    "blocked_pool", "Pooling", "x y", f"batch in_h in_w channels out_h out_w {WINDOW} count_include_pad:0-1"
)
BLOCKED_GLOBAL_POOL = blocked_row("blocked_global_pool", "Pooling", "x y", "batch in_h in_w channels")

KERNELS = (BLOCKED_POOL, BLOCKED_GLOBAL_POOL)
