"""Lowers ConvTranspose on images: with a filter for each channel, or any other."""

from __future__ import annotations

from runtime.families.convolution import image_lowering as convolution
from runtime.families.transposed_convolution.node import TransposedConvolution
from runtime.graph import Node
from runtime.layout.image import ImageLayout
from runtime.lowering.builder import Builder


def lower_conv_transpose(builder: Builder, node: Node) -> str:
    """Emits the one launch, or returns why it cannot run."""
    conv = TransposedConvolution(builder, node)
    if conv.is_depthwise:
        dims = conv.window() | {"channels": conv.group}
        layout = ImageLayout.DEPTHWISE_FILTER
        return convolution.emit_convolution(conv, "deconv_depthwise", "DepthwiseDeconv2d", dims, conv.filter, layout)
    dims = conv.window() | conv.per_group() | {"groups": conv.group}
    return convolution.emit_convolution(conv, "deconv2d", "Deconv2D", dims, conv.filter, ImageLayout.CONV_FILTER)


IMAGE_LOWERINGS = {"ConvTranspose": lower_conv_transpose}
