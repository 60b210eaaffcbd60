"""Typical sizes of attention, for `farm opbench`."""

from __future__ import annotations

from typing import Any

from runtime.operator_case import OperatorCase, sized


def _attention(places: int, heads: int, depth: int, causal: bool = False) -> OperatorCase:
    """Heads side by side in each place."""
    x, row = (1, places, heads * depth), heads * depth
    attrs: dict[str, Any] = {"extents": (1, heads, places, places, depth, depth), "shape": x, "offsets": (0, 0, 0)}
    attrs |= dict.fromkeys(("q_strides", "k_strides", "v_strides", "y_strides"), (places * row, depth, row, 1))
    attrs |= {"mask_strides": (0, 0, 0, 0), "scale": depth**-0.5, "causal": causal}
    return sized("Attention", x, x, x, detail=f"{heads}{'_causal' if causal else ''}", **attrs)


OPBENCH_CASES = (
    _attention(197, 3, 64),
    _attention(128, 4, 64),
    _attention(128, 12, 64, causal=True),
)
