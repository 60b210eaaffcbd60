"""Lowers ConvTranspose over NHWC buffers: with a filter for each channel, or any other."""

from __future__ import annotations

import numpy as np

from runtime.families.convolution import buffer_lowering as convolution
from runtime.families.transposed_convolution.node import TransposedConvolution
from runtime.graph import Node
from runtime.lowering.builder import Builder


def lower_conv_transpose(builder: Builder, node: Node) -> None:
    """Emits the one launch; depthwise filters lie as [taps][channels]."""
    conv = TransposedConvolution(builder, node)
    if conv.is_depthwise:
        taps = np.ascontiguousarray(conv.filter.reshape(conv.group, -1).T)
        weights = builder.constant(node.inputs[1], taps)
        convolution.emit_convolution(
            conv, "deconv_depthwise", "DepthwiseDeconv2d", conv.window() | {"channels": conv.group}, weights
        )
        return
    dims = conv.window() | conv.per_group() | {"groups": conv.group}
    convolution.emit_convolution(conv, "deconv2d", "Deconv2D", dims, convolution.filter_rows(conv))


BUFFER_LOWERINGS = {"ConvTranspose": lower_conv_transpose}
