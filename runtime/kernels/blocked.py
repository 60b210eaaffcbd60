"""Operators of farmrt's CPU on blocked activations (`Storage.BLOCKED`): the rows that plans name; they have no OpenCL.

BLOCK is the channels of a block. Weights lie in blocks of as many rows: see runtime/layout/buffer.py, `pack_rows`.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from runtime.kernels.spec import ArgumentForm, Dims, Kernel, MemoryType, no_macs

_WINDOW = "k_h k_w stride_h stride_w pad_t pad_l dil_h dil_w"
_CONVOLUTION = f"batch in_h in_w in_c out_h out_w out_c {_WINDOW} groups"


def _row(
    name: str,
    operator: str,
    tensors: str,
    ints: str,
    floats: str = "",
    macs: Callable[[Dims], int] = no_macs,
) -> Kernel:
    arguments = tuple((argument, ArgumentForm.FLAT) for argument in tensors.split())
    return Kernel(
        name,
        "",
        operator,
        MemoryType.BUFFER,
        arguments,
        tuple(ints.split()),
        lambda dims, chosen: (1,),
        floats=tuple(floats.split()),
        macs=macs,
    )


def _convolution_macs(dims: Dims) -> int:
    names = ("batch", "out_h", "out_w", "out_c", "groups", "in_c", "k_h", "k_w")
    return math.prod(dims[name] for name in names)


def _depthwise_macs(dims: Dims) -> int:
    return math.prod(dims[name] for name in ("batch", "out_h", "out_w", "channels", "k_h", "k_w"))


BLOCKED_CONV2D = _row("blocked_conv2d", "Conv2D", "x w b residual y", _CONVOLUTION, "act_a act_b", _convolution_macs)
BLOCKED_WINOGRAD = _row(
    "blocked_winograd", "Conv2D", "x w b residual y", _CONVOLUTION, "act_a act_b", _convolution_macs
)
BLOCKED_DEPTHWISE = _row(
    "blocked_depthwise",
    "DepthwiseConv2d",
    "x w b residual y",
    f"batch in_h in_w out_h out_w channels {_WINDOW}",
    "act_a act_b",
    _depthwise_macs,
)
BLOCKED_POOL = _row(
    "blocked_pool", "Pooling", "x y", f"batch in_h in_w channels out_h out_w {_WINDOW} count_include_pad"
)
BLOCKED_GLOBAL_POOL = _row("blocked_global_pool", "Pooling", "x y", "batch in_h in_w channels")
REORDER = _row("reorder", "Transpose", "x y", "batch channels h w")
