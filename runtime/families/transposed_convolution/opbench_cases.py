"""Typical sizes of transposed convolutions, for `farm opbench`."""

from __future__ import annotations

from typing import Any

from runtime.operators.case import OperatorCase, shape_text


def _conv_transpose(c: int, size: int, out: int, k: int, stride: int, group: int = 1) -> OperatorCase:
    """Padded so that the size is multiplied by the stride."""
    pad, x = (k - stride) // 2, (1, c, size, size)
    attrs: dict[str, Any] = {"strides": (stride,) * 2, "pads": (pad,) * 4, "dilations": (1, 1), "group": group}
    attrs |= {"output_padding": (0, 0), "activation": "relu"}
    name = f"ConvTranspose_{shape_text(x)}_K{k}x{k}S{stride}x{stride}D1x1G{group}_{out}"
    return OperatorCase(name, "ConvTranspose", (x,), ((c, out // group, k, k), (out,)), attrs)


OPBENCH_CASES = (
    _conv_transpose(128, 28, 64, k=2, stride=2),
    _conv_transpose(256, 16, 128, k=4, stride=2),
    _conv_transpose(21, 32, 21, k=4, stride=2, group=21),
    _conv_transpose(21, 16, 21, k=16, stride=8, group=21),
)
