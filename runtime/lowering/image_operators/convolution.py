"""Conv on images: 1x1, depthwise or direct."""

from __future__ import annotations

from runtime.graph import Array, Node
from runtime.kernels.spec import Memory
from runtime.layout.image import ImageLayout
from runtime.lowering.activation import activation
from runtime.lowering.builder import Builder, Tensors
from runtime.lowering.convolution import Convolution
from runtime.plan.records import Storage


def lower_conv(builder: Builder, node: Node) -> str:
    """Chooses the algorithm from the shapes."""
    conv = Convolution(builder, node)
    n, in_c, h, w = conv.x_shape
    if conv.is_depthwise:
        dims = conv.window() | {"channels": conv.group}
        return _emit(conv, "depthwise", "DepthwiseConv2d", dims, conv.filter, ImageLayout.DEPTHWISE_FILTER)
    if conv.is_pointwise:
        dims = {"rows": n * h, "width": w, "in_c": in_c, "out_c": conv.y_shape[1]}
        return _emit(conv, "conv1x1", "Conv2D", dims, conv.filter, ImageLayout.CONV_FILTER)
    dims = conv.window() | conv.per_group() | {"groups": conv.group}
    return _emit(conv, "conv2d", "Conv2D", dims, conv.filter, ImageLayout.CONV_FILTER)


def _emit(conv: Convolution, kernel: str, op: str, dims: dict[str, int], weights: Array, layout: ImageLayout) -> str:
    builder, node = conv.builder, conv.node
    reason = builder.refusal(kernel, Memory.IMAGE, dims)
    if reason:
        return reason
    x = builder.read(node.inputs[0], Storage.IMAGE)
    residual = builder.read(node.input(3), Storage.IMAGE) if node.input(3) else x
    code, numbers = activation(node.attrs)
    bias = builder.constant_image(f"{node.name}:bias", conv.bias_data(), ImageLayout.ARGUMENT)
    tensors: Tensors = {"x": x, "w": builder.constant_image(node.inputs[1], weights, layout), "b": bias}
    tensors |= {"residual": residual, "y": builder.write(node.output, Storage.IMAGE)}
    defines = {"ACTIVATION": code, "RESIDUAL": int(bool(node.input(3)))}
    builder.launch(kernel, node.name, op, tensors, dims, numbers, defines, conv.shown, memory=Memory.IMAGE)
    return ""


LOWERINGS = {"Conv": lower_conv}
