"""Lowers Conv over NHWC buffers: as 1x1, depthwise, fully connected, Winograd's or direct convolution."""

from __future__ import annotations

import math

import numpy as np

from runtime.families.convolution.node import Convolution
from runtime.families.convolution.quantized_lowering import pays, whole_weights
from runtime.families.matrix.buffer_lowering import emit_fully_connected
from runtime.families.matrix.byte_products import (
    MOST_PRODUCTS,
    ByteProduct,
    bias_of,
    byte_options,
    byte_product,
    fixed_rows,
    output_step,
)
from runtime.graph import Array, Node
from runtime.kernels.spec import MemoryType
from runtime.layout.winograd import transform_filter
from runtime.lowering.activation import activation_code
from runtime.lowering.blocks import QuantizedOperator
from runtime.lowering.builder import PIXEL_BYTES, Builder
from runtime.lowering.launch import Rows, Tensors
from runtime.lowering.launcher import WEIGHT_SLACK
from runtime.lowering.value import Steps, Value
from runtime.types import Dot, ElementType, Storage

_INTEGER_UNIT = 128  # by which a depthwise filter's integers are divided: half floats hold these, and their scales
MOST_PLANES = 4  # channels of a row-major input that is read as it is


def lower_conv(builder: Builder, node: Node) -> None:
    """Chooses the algorithm from the shapes and emits it; where Winograd's cannot run, it is the direct one."""
    conv = Convolution(builder, node)
    if conv.is_depthwise:
        _depthwise(conv)
    elif conv.is_matrix and _has_dense_rows(conv):
        _fully_connected(conv)
    elif conv.is_pointwise:
        n, in_c, h, w = conv.x_shape
        emit_convolution(
            conv, "conv1x1", "Conv2D", {"pixels": n * h * w, "in_c": in_c, "out_c": conv.y_shape[1]}, filter_rows(conv)
        )
    elif _has_planes(conv):
        _planes(conv)
    elif conv.builder.reads_bytes(node) or not conv.is_winograd or _winograd(conv):
        emit_convolution(
            conv, "conv2d", "Conv2D", conv.window() | conv.per_group() | {"groups": conv.group}, filter_rows(conv)
        )


def emit_convolution(
    conv: Convolution,
    kernel: str,
    op: str,
    dims: dict[str, int],
    weights: Value | Rows,
    storage: Storage = Storage.NHWC,
) -> None:
    """Emits a convolution that is one launch and reads its input in this storage, or in bytes."""
    builder, node = conv.builder, conv.node
    in_bytes, out_bytes = builder.reads_bytes(node), builder.in_bytes(node.output)
    x = builder.read_bytes(node.inputs[0]) if in_bytes else builder.read(node.inputs[0], storage)
    y = builder.write_bytes(node.output) if out_bytes else builder.write(node.output, Storage.NHWC)
    residual, has_residual = _residual(conv, x)
    code, numbers = activation_code(node.attrs)
    zeros = _zero_points(conv, x.steps) if x.steps else builder.zeros(conv.x_shape[1])
    defines = {"ACTIVATION": code, "RESIDUAL": has_residual}
    if product := _byte_product(conv):
        defines, numbers = defines | product.defines, numbers | product.numbers
        weights, dims = _integer_rows(conv, product), dims | {"in_c": product.rows.integers.shape[2] // conv.taps}
    bias = product.bias if product else conv.bias_data()
    if in_bytes and not product:
        fixed = _fixed_depthwise(conv)
        own, bounds = byte_options(builder, node, fixed)
        defines, numbers = defines | own, numbers | bounds
        bias = bias.astype(np.float64) / output_step(builder, node) if fixed is None else fixed
    b = bias_of(builder, node, bias)
    tensors: Tensors = {"x": x, "w": weights, "b": b, "residual": residual, "zeros": zeros, "y": y}
    builder.launch(kernel, node.name, op, tensors, dims, numbers, defines, conv.shown)


def takes_bytes(builder: Builder, node: Node) -> bool:
    """Whether a convolution has bytes to read, and integers to multiply them with.

    Dot products do so faster than Winograd's algorithm saves products of floats.
    """
    graph, scales = builder.graph, whole_weights(builder.graph, node)
    if graph.tensors[node.inputs[0]].quantization is None or scales is None or node.input(3):
        return False
    conv = Convolution(builder, node)
    if conv.is_depthwise:
        return True
    in_c = _read_channels(conv)
    words = in_c % PIXEL_BYTES == 0 and in_c * conv.taps <= MOST_PRODUCTS
    return words and (not conv.is_winograd or builder.target.dot != Dot.NONE)


def _read_channels(conv: Convolution) -> int:
    """Channels of a group as the kernel reads bytes: those of a whole pixel."""
    in_c = conv.per_group()["in_c"]
    return max(in_c, PIXEL_BYTES) if conv.group == 1 else in_c


def _byte_product(conv: Convolution) -> ByteProduct | None:
    """Of a convolution of bytes that adds integers; None of one of floats, or of one channel each."""
    builder, node = conv.builder, conv.node
    scales = whole_weights(builder.graph, node)
    if scales is None or conv.is_depthwise or not builder.reads_bytes(node):
        return None
    integers = np.rint(conv.filter / scales[:, None, None, None]).astype(np.int8).transpose(0, 2, 3, 1)
    more = _read_channels(conv) - integers.shape[3]
    integers = np.pad(integers, ((0, 0), (0, 0), (0, 0), (0, more)))
    rows = integers.reshape(conv.group, conv.y_shape[1] // conv.group, -1)
    return byte_product(builder, node, rows, scales, conv.bias_data())


def _integer_rows(conv: Convolution, product: ByteProduct) -> Rows:
    return Rows(conv.node.inputs[1], product.rows.integers, product.rows)


def _fixed_depthwise(conv: Convolution) -> Array | None:
    """What sums of one channel each are rounded by, if by fixed point; the kernel takes the zero point away."""
    scales, integers = _whole_taps(conv)
    return fixed_rows(conv.builder, conv.node, integers[:, None], scales, 0)


def _whole_taps(conv: Convolution) -> tuple[Array, Array]:
    """Scales [channels] and integers [channels, k_h * k_w] of a depthwise filter."""
    scales = whole_weights(conv.builder.graph, conv.node)
    assert scales is not None
    return scales, np.rint(conv.filter.reshape(conv.group, -1) / scales[:, None]).astype(np.int8)


def _zero_points(conv: Convolution, steps: Steps) -> Value:
    """Bytes that stand for zero, as many as a pixel has."""
    data = np.full(conv.x_shape[1] + WEIGHT_SLACK, steps.zero, np.uint8)
    return Value(f"{conv.node.name}:zeros", data.shape, Storage.FLAT, ElementType.U8, data=data)


def _residual(conv: Convolution, fallback: Value) -> tuple[Value, int]:
    """Returns the tensor added before the activation, or `fallback` where there is none, and the RESIDUAL option."""
    name = conv.node.input(3)
    return (conv.builder.read(name, Storage.NHWC), 1) if name else (fallback, 0)


def filter_rows(conv: Convolution) -> Rows:
    """Returns the filter as rows to pack: [groups, output channels, k_h * k_w * input channels]."""
    channels_last = conv.filter.transpose(0, 2, 3, 1)  # as the activations lie
    return Rows(conv.node.inputs[1], channels_last.reshape(conv.group, conv.y_shape[1] // conv.group, -1))


def _has_planes(conv: Convolution) -> bool:
    """Whether the input lies row-major, as a plan's input does, and is read so: bringing few channels to NHWC moves as
    much memory as the convolution itself does. Not where the driver does not build the kernel, which no CPU has."""
    x = conv.builder.home(conv.node.inputs[0])
    few = conv.group == 1 and conv.x_shape[1] <= MOST_PLANES and not conv.builder.reads_bytes(conv.node)
    if not few or x.storage != Storage.FLAT or x.element != conv.builder.element or conv.builder.on_cpu:
        return False
    return not conv.builder.refusal("conv2d_planes", MemoryType.BUFFER, conv.window() | conv.per_group())


def _planes(conv: Convolution) -> None:
    """Emits a direct convolution of a row-major input; its filter lies as the graph gives it."""
    dims = conv.window() | conv.per_group()
    rows = Rows(conv.node.inputs[1], conv.filter.reshape(1, conv.y_shape[1], -1))
    emit_convolution(conv, "conv2d_planes", "Conv2D", dims, rows, Storage.FLAT)


def _depthwise(conv: Convolution) -> None:
    """Emits a depthwise convolution; its filters lie as [k_h * k_w][channels], for bytes with what a sum is worth."""
    taps, builder, node = conv.filter.reshape(conv.group, -1), conv.builder, conv.node
    if builder.reads_bytes(node):
        scales, integers = _whole_taps(conv)
        worth = scales * builder.steps_of(node.inputs[0]).step / output_step(builder, node)
        taps = np.concatenate([integers / _INTEGER_UNIT, worth[:, None] * _INTEGER_UNIT], axis=1)
    taps = np.ascontiguousarray(taps.T, np.float32)
    weights = conv.builder.constant(conv.node.inputs[1], taps)
    emit_convolution(conv, "depthwise", "DepthwiseConv2d", conv.window() | {"channels": conv.group}, weights)


def _has_dense_rows(conv: Convolution) -> bool:
    """Whether the rows of input and output follow each other without gaps, or there is only one."""
    builder, node = conv.builder, conv.node
    if builder.reads_bytes(node):
        return not (builder.is_part(node.inputs[0]) or builder.is_part(node.output)) and conv.x_shape[1] >= PIXEL_BYTES
    dense_input = builder.read(node.inputs[0], Storage.NHWC).stride == conv.x_shape[1]
    one_row = conv.x_shape[0] == 1
    return (dense_input or (one_row and conv.kernel == (1, 1))) and (one_row or not builder.is_part(node.output))


def _fully_connected(conv: Convolution) -> None:
    """Emits a convolution whose window covers the whole input: that input, as it lies, is one row of a matrix."""
    builder, node, product = conv.builder, conv.node, _byte_product(conv)
    x = builder.read_bytes(node.inputs[0]) if product else builder.read(node.inputs[0], Storage.NHWC)
    y = builder.write_bytes(node.output) if builder.in_bytes(node.output) else builder.write(node.output, Storage.NHWC)
    weights = _integer_rows(conv, product) if product else filter_rows(conv)
    bias = bias_of(builder, node, product.bias if product else conv.bias_data())
    tensors: Tensors = {"x": x, "w": weights, "b": bias, "y": y}
    dims = {"rows": conv.x_shape[0], "in_c": math.prod(conv.x_shape[1:]), "out_c": conv.y_shape[1]}
    emit_fully_connected(builder, node, tensors, dims, conv.shown, product=product)


def _winograd(conv: Convolution) -> str:
    """Emits Winograd's convolution: transform of the input, a product for each point, transform of the output.

    Returns why one of the three cannot run, and emits nothing then; else the empty text.
    """
    builder, node, tile = conv.builder, conv.node, conv.algorithm.tile
    n, in_c, in_h, in_w = conv.x_shape
    _, out_c, out_h, out_w = conv.y_shape
    grid = {"batch": n, "tiles_h": -(-out_h // tile), "tiles_w": -(-out_w // tile)}
    tiles, points = n * grid["tiles_h"] * grid["tiles_w"], (tile + 2) ** 2
    before = grid | {"pad_t": conv.pads[0], "pad_l": conv.pads[1], "in_h": in_h, "in_w": in_w, "in_c": in_c}
    products = {"points": points, "tiles": tiles, "in_c": in_c, "out_c": out_c}
    after = grid | {"out_h": out_h, "out_w": out_w, "out_c": out_c}
    launches = (("winograd_input", before), ("winograd_gemm", products), ("winograd_output", after))
    reasons = [builder.refusal(kernel, MemoryType.BUFFER, dims) for kernel, dims in launches]
    if any(reasons):
        return next(filter(None, reasons))
    x = builder.read(node.inputs[0], Storage.NHWC)
    v = builder.scratch(f"{node.name}:v", points * tiles * in_c)
    m = builder.scratch(f"{node.name}:m", points * tiles * out_c)
    wino = {"WINO": tile}
    builder.launch("winograd_input", f"{node.name}:input", "WinogradTransform", {"x": x, "v": v}, before, defines=wino)
    gemm: Tensors = {"v": v, "u": Rows(node.inputs[1], transform_filter(conv.filter, tile)), "m": m}
    builder.launch("winograd_gemm", node.name, "Conv2D", gemm, products, defines=wino, shown=conv.shown)
    residual, has_residual = _residual(conv, x)
    code, numbers = activation_code(node.attrs)
    y = builder.write(node.output, Storage.NHWC)
    bias = bias_of(builder, node, conv.bias_data())
    tensors: Tensors = {"m": m, "b": bias, "residual": residual, "y": y}
    defines = wino | {"ACTIVATION": code, "RESIDUAL": has_residual}
    builder.launch("winograd_output", f"{node.name}:output", "WinogradInverse", tensors, after, numbers, defines)
    return ""


BUFFER_LOWERINGS = {"Conv": lower_conv}
BYTE_OPERATORS = {"Conv": QuantizedOperator(takes_bytes, lower_conv, pays, rounds=False, inputs=1)}
