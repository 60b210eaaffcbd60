"""Convolutions of farmrt's CPU on blocked activations (`Storage.BLOCKED`): what plans name; they have no OpenCL.

BLOCK is the channels of a block. Weights lie in blocks of as many rows: see runtime/layout/buffer.py, `pack_rows`.
"""

from __future__ import annotations

import math

from runtime.kernels.blocked import blocked_row
from runtime.kernels.spec import WINDOW, Dims

_CONVOLUTION = f"batch in_h in_w in_c out_h out_w out_c {WINDOW} groups"


def _convolution_macs(dims: Dims) -> int:
    names = ("batch", "out_h", "out_w", "out_c", "groups", "in_c", "k_h", "k_w")
    return math.prod(dims[name] for name in names)


def _depthwise_macs(dims: Dims) -> int:
    products = math.prod(dims[name] for name in ("batch", "out_h", "out_w", "channels", "k_h", "k_w"))
    return products * dims.get("group", 1)


def _separable_macs(dims: Dims) -> int:
    wide = math.prod(dims[name] for name in ("batch", "in_h", "in_w", "in_c", "channels"))
    pixels, channels = dims["out_h"] * dims["out_w"] * dims["batch"], dims["channels"]
    expands = dims["in_c"] != channels
    return wide * expands + pixels * channels * (dims["k_h"] * dims["k_w"] + dims["out_c"])


BLOCKED_CONV2D = blocked_row(
    "blocked_conv2d", "Conv2D", "x w:weights b residual y", _CONVOLUTION, "act_a act_b", _convolution_macs
)
BLOCKED_WINOGRAD = blocked_row(
    "blocked_winograd", "Conv2D", "x w:weights b residual y", _CONVOLUTION, "act_a act_b", _convolution_macs
)
# Also of groups of 4, 8 or 16 channels, which fit in a block: `group` of them.
BLOCKED_DEPTHWISE = blocked_row(
    "blocked_depthwise",
    "DepthwiseConv2d",
    "x w b residual y",
    f"batch in_h in_w out_h out_w channels {WINDOW} group",
    "act_a act_b",
    _depthwise_macs,
)
# A 1x1 convolution to more channels (EXPAND), a depthwise one, a 1x1 convolution; w and b hold those of each in turn.
BLOCKED_SEPARABLE = blocked_row(
    "blocked_separable",
    "Conv2D",
    "x w b residual y",
    f"batch in_h in_w in_c out_h out_w out_c channels {WINDOW}",
    "inner_a inner_b act_a act_b",
    _separable_macs,
)
_QUANTIZED = "x:bytes w:bytes scales b residual:bytes y:bytes"
QUANTIZED_CONV2D = blocked_row(
    "quantized_conv2d", "Conv2D", _QUANTIZED, _CONVOLUTION, "act_a act_b residual_scale step", _convolution_macs
)
QUANTIZED_DEPTHWISE = blocked_row(
    "quantized_depthwise",
    "DepthwiseConv2d",
    _QUANTIZED,
    f"batch in_h in_w out_h out_w channels {WINDOW}",
    "act_a act_b residual_scale",
    _depthwise_macs,
)
# The same of 3x3 windows by Winograd's algorithm, exact: weights are words of 16 bits.
INTEGER_WINOGRAD = blocked_row(
    "integer_winograd", "Conv2D", _QUANTIZED, _CONVOLUTION, "act_a act_b residual_scale", _convolution_macs
)
QUANTIZED_WINOGRAD = blocked_row(
    "quantized_winograd", "Conv2D", "x:bytes w b residual:bytes y:bytes", _CONVOLUTION, "act_a act_b", _convolution_macs
)

BLOCK_KERNELS = (
    *(BLOCKED_CONV2D, BLOCKED_WINOGRAD, BLOCKED_DEPTHWISE, BLOCKED_SEPARABLE),
    *(QUANTIZED_CONV2D, QUANTIZED_DEPTHWISE, INTEGER_WINOGRAD, QUANTIZED_WINOGRAD),
)
