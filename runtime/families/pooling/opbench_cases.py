"""Typical sizes of pools, for `farm opbench`."""

from __future__ import annotations

from typing import Any

from runtime.operator_case import OperatorCase, shape_text


def _pool(op: str, c: int, size: int, k: int, stride: int, pad: int) -> OperatorCase:
    attrs: dict[str, Any] = {"kernel": (k, k), "strides": (stride,) * 2, "pads": (pad,) * 4}
    attrs |= {"count_include_pad": False} if op == "AveragePool" else {}
    x = (1, c, size, size)
    return OperatorCase(f"{op}_{shape_text(x)}_K{k}x{k}S{stride}x{stride}", op, (x,), (), attrs)


CASES = (
    _pool("MaxPool", 64, 112, 3, 2, 1),
    _pool("AveragePool", 128, 28, 2, 2, 0),
)
