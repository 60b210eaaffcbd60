"""Lowers Conv on images: as 1x1, depthwise, fully connected, Winograd's or direct convolution."""

import numpy as np

from runtime.families.convolution.node import Convolution
from runtime.graph import Array, Node
from runtime.kernels import table
from runtime.kernels.spec import MemoryType
from runtime.layout.image import LANES, ImageLayout
from runtime.layout.integer_rows import integer_rows
from runtime.layout.winograd import transform_filter
from runtime.lowering.activation import activation_code
from runtime.lowering.builder import Builder
from runtime.lowering.launch import Tensors
from runtime.types import Storage

SCALE_FACTOR = 128  # of the scales of integer weights on images (kernels/image/prelude.cl)


def lower_conv(builder: Builder, node: Node) -> str:
    """Chooses the algorithm from the shapes and emits it; where Winograd's cannot run, it is the direct one."""
    conv = Convolution(builder, node)
    n, in_c, h, w = conv.x_shape
    if conv.is_depthwise:
        dims = conv.window() | {"channels": conv.group}
        return emit_convolution(conv, "depthwise", "DepthwiseConv2d", dims, conv.filter, ImageLayout.DEPTHWISE_FILTER)
    if conv.is_matrix:
        dims = {"batch": n, "in_h": h, "in_w": w, "in_c": in_c, "out_c": conv.y_shape[1]}
        rows = conv.filter.reshape(conv.y_shape[1], in_c, 1, h * w)
        return emit_convolution(conv, "fully_connected", "FullyConnected", dims, rows, ImageLayout.CHANNEL_MAJOR)
    if conv.is_pointwise:
        dims = {"rows": n * h, "width": w, "in_c": in_c, "out_c": conv.y_shape[1]}
        return emit_convolution(conv, "conv1x1", "Conv2D", dims, conv.filter, ImageLayout.CONV_FILTER)
    if conv.is_winograd and not _winograd(conv):
        return ""
    dims = conv.window() | conv.per_group() | {"groups": conv.group}
    return emit_convolution(conv, "conv2d", "Conv2D", dims, conv.filter, ImageLayout.CONV_FILTER)


def emit_convolution(
    conv: Convolution, kernel: str, op: str, dims: dict[str, int], weights: Array, layout: ImageLayout
) -> str:
    """Emits a convolution that is one launch, or returns why it cannot run."""
    builder, node = conv.builder, conv.node
    reason = builder.refusal(kernel, MemoryType.IMAGE, dims)
    if reason:
        return reason
    x = builder.read(node.inputs[0], Storage.IMAGE)
    code, numbers = activation_code(node.attrs)
    defines, name, bias = {"ACTIVATION": code, "RESIDUAL": int(bool(node.input(3)))}, node.inputs[1], conv.bias_data()
    integers = integer_rows(weights.reshape(1, len(weights), -1))
    if integers and not integers.group and table.find_kernel(kernel, MemoryType.IMAGE).integer_weights:
        defines["WEIGHT_BITS"] = 8  # those of four lie so too
        w = builder.constant_image_bytes(name, integers.integers.reshape(weights.shape), layout)
        bias = with_scales(bias, integers.scales.reshape(-1))
    else:
        w = builder.constant_image(name, weights, layout)
    tensors: Tensors = {"x": x, "w": w, **_ends(conv, bias)}
    builder.launch(kernel, node.name, op, tensors, dims, numbers, defines, conv.shown, memory=MemoryType.IMAGE)
    return ""


def with_scales(bias: Array, scales: Array) -> Array:
    """A bias, filled to whole blocks, and what integer weights are multiplied by, as the kernels on images read it."""
    return np.pad(np.stack([bias, scales * SCALE_FACTOR]), ((0, 0), (0, -len(bias) % LANES))).reshape(-1)


def _ends(conv: Convolution, bias: Array) -> Tensors:
    """Returns bias, residual (the input, where there is none) and output of a convolution."""
    builder, node = conv.builder, conv.node
    image = builder.constant_image(f"{node.name}:bias", bias, ImageLayout.ARGUMENT)
    residual = builder.read(node.input(3) or node.inputs[0], Storage.IMAGE)
    return {"b": image, "residual": residual, "y": builder.write(node.output, Storage.IMAGE)}


def _winograd(conv: Convolution) -> str:
    """Emits Winograd's three launches, or returns why one of them cannot run and emits nothing."""
    builder, node, tile = conv.builder, conv.node, conv.algorithm.tile
    n, in_c, in_h, in_w = conv.x_shape
    _, out_c, out_h, out_w = conv.y_shape
    grid = {"batch": n, "tiles_h": -(-out_h // tile), "tiles_w": -(-out_w // tile)}
    tiles, points = n * grid["tiles_h"] * grid["tiles_w"], (tile + 2) ** 2
    products = {"points": points, "tiles": tiles, "in_c": in_c, "out_c": out_c}
    before = grid | {"pad_t": conv.pads[0], "pad_l": conv.pads[1], "in_h": in_h, "in_w": in_w, "in_c": in_c}
    after = grid | {"out_h": out_h, "out_w": out_w, "out_c": out_c}
    launches = (("winograd_input", before), ("winograd_gemm", products), ("winograd_output", after))
    reasons = [builder.refusal(kernel, MemoryType.IMAGE, dims) for kernel, dims in launches]
    if any(reasons):
        return next(filter(None, reasons))
    name, memory, wino = node.name, MemoryType.IMAGE, {"WINO": tile}
    v = builder.scratch_image(f"{name}:v", (points, 1, in_c, tiles), ImageLayout.HEIGHT_MAJOR)
    m = builder.scratch_image(f"{name}:m", (points, 1, out_c, tiles), ImageLayout.HEIGHT_MAJOR)
    x = builder.read(node.inputs[0], Storage.IMAGE)
    op = "WinogradTransform"
    builder.launch("winograd_input", f"{name}:input", op, {"x": x, "v": v}, before, defines=wino, memory=memory)
    transformed = transform_filter(conv.filter, tile).transpose(1, 2, 0)[..., None]
    u = builder.constant_image(node.inputs[1], transformed, ImageLayout.CONV_FILTER)
    gemm: Tensors = {"v": v, "u": u, "m": m}
    builder.launch("winograd_gemm", name, "Conv2D", gemm, products, shown=conv.shown, memory=memory)
    code, numbers = activation_code(node.attrs)
    tensors: Tensors = {"m": m, **_ends(conv, conv.bias_data())}
    wino |= {"ACTIVATION": code, "RESIDUAL": int(bool(node.input(3)))}
    op = "WinogradInverse"
    builder.launch("winograd_output", f"{name}:output", op, tensors, after, numbers, wino, memory=memory)
    return ""


IMAGE_LOWERINGS = {"Conv": lower_conv}
