"""Typical sizes of resizing, for `farm opbench`."""

from __future__ import annotations

from runtime.operator_case import OperatorCase, shape_text


def _resize(mode: str, c: int, size: int, factor: int) -> OperatorCase:
    x = (1, c, size, size)
    attrs = {
        "mode": mode,
        "coordinate_transformation_mode": "half_pixel" if mode == "linear" else "asymmetric",
        "nearest_mode": "floor",
        "sizes": (size * factor,) * 2,
        "scales": (float(factor),) * 2,
    }
    return OperatorCase(f"Resize_{shape_text(x)}_{mode}_{shape_text((size * factor,) * 2)}", "Resize", (x,), (), attrs)


OPBENCH_CASES = (
    _resize("nearest", 32, 28, 2),
    _resize("linear", 32, 28, 2),
)
