"""Rows of the strided CPU operators that sort and choose."""

from __future__ import annotations

from runtime.kernels.strided import strided_row

STRIDED_KERNELS = (
    strided_row("sorting", "x y", "length largest:0-1 positions:0-1"),
    strided_row("suppression", "boxes scores limit least y", "count centred:0-1"),
)
