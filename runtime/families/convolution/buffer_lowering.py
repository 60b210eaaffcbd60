"""Lowers Conv over NHWC buffers: as 1x1, depthwise, fully connected, Winograd's or direct convolution."""

from __future__ import annotations

import math

import numpy as np

from runtime.families.convolution.node import Convolution
from runtime.families.convolution.quantized_lowering import MOST_PRODUCTS, whole_weights
from runtime.families.matrix.buffer_lowering import emit_fully_connected
from runtime.graph import Array, Node
from runtime.kernels.codes import INPUT_IN_BYTES, OUTPUT_IN_BYTES
from runtime.kernels.spec import MemoryType
from runtime.layout.integer_rows import IntegerRows
from runtime.layout.winograd import transform_filter
from runtime.lowering.activation import activation_code
from runtime.lowering.builder import Builder
from runtime.lowering.launch import Rows, Tensors
from runtime.lowering.launcher import WEIGHT_SLACK
from runtime.lowering.value import Steps, Value, byte_bounds
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
    elif not conv.is_winograd or _winograd(conv):
        emit_convolution(
            conv, "conv2d", "Conv2D", conv.window() | conv.per_group() | {"groups": conv.group}, filter_rows(conv)
        )


def takes_bytes(builder: Builder, node: Node) -> bool:
    """Whether a convolution's kernel reads and writes bytes."""
    conv = Convolution(builder, node)
    return conv.is_depthwise or not (conv.is_matrix or conv.is_winograd)


def emit_convolution(
    conv: Convolution,
    kernel: str,
    op: str,
    dims: dict[str, int],
    weights: Value | Rows,
    storage: Storage = Storage.NHWC,
) -> None:
    """Emits a convolution that is one launch and reads its input in this storage."""
    builder, node = conv.builder, conv.node
    in_bytes, out_bytes = (builder.in_bytes(name) for name in (node.inputs[0], node.output))
    x = builder.read_bytes(node.inputs[0]) if in_bytes else builder.read(node.inputs[0], storage)
    y = builder.write_bytes(node.output) if out_bytes else builder.write(node.output, Storage.NHWC)
    residual, has_residual = _residual(conv, x)
    code, numbers = activation_code(node.attrs)
    zeros = _zero_points(conv, x.steps) if x.steps else builder.zeros(conv.x_shape[1])
    tensors: Tensors = {"x": x, "w": weights, "b": _bias(conv), "residual": residual, "zeros": zeros, "y": y}
    defines = {"ACTIVATION": code, "RESIDUAL": has_residual}
    if in_bytes or out_bytes:
        defines["BYTES"] = INPUT_IN_BYTES * in_bytes + OUTPUT_IN_BYTES * out_bytes
    if _in_steps(conv):
        numbers = byte_bounds(builder.steps_of(node.output), "act_a act_b")
    if builder.target.dot and _integers(conv):
        defines["DOT"] = int(builder.target.dot)
    builder.launch(kernel, node.name, op, tensors, dims, numbers, defines, conv.shown)


def _bias(conv: Convolution) -> Value:
    bias, steps = conv.bias_data().astype(np.float64), _input_steps(conv)
    if steps and not conv.is_depthwise:  # whose kernel takes the zero point from its input
        scales = whole_weights(conv.builder.graph, conv.node) if _integers(conv) else None
        weights = conv.filter if scales is None else _whole(conv, scales)
        totals = weights.sum(axis=(1, 2, 3), dtype=np.float64) * (1 if scales is None else scales)
        below = 128 if scales is not None and conv.builder.target.dot == Dot.ARM else 0
        bias = bias - steps.step * totals * (steps.zero - below)
    return conv.builder.constant(conv.node.input(2) or f"{conv.node.name}:bias", bias / _output_step(conv))


def _input_steps(conv: Convolution) -> Steps | None:
    """What bytes of the input stand for, if it lies so."""
    name = conv.node.inputs[0]
    return conv.builder.steps_of(name) if conv.builder.in_bytes(name) else None


def _in_steps(conv: Convolution) -> bool:
    """Whether results are steps of the output's bytes, which `store_result` then rounds as they are."""
    return bool(_input_steps(conv)) and conv.builder.in_bytes(conv.node.output) and not conv.node.input(3)


def _output_step(conv: Convolution) -> float:
    return conv.builder.steps_of(conv.node.output).step if _in_steps(conv) else 1.0


def _of_products(conv: Convolution) -> float:
    """What a product of the input as it lies and a weight is worth."""
    steps = _input_steps(conv)
    return (steps.step if steps else 1.0) / _output_step(conv)


def _whole(conv: Convolution, scales: Array) -> Array:
    return np.asarray(np.rint(conv.filter / scales[:, None, None, None]))


def _integers(conv: Convolution) -> IntegerRows | None:
    """The filter's integers, where they meet bytes and the kernel reads them in words."""
    scales, in_c = whole_weights(conv.builder.graph, conv.node), conv.filter.shape[1]
    if scales is None or conv.is_depthwise or not _input_steps(conv) or in_c * math.prod(conv.kernel) > MOST_PRODUCTS:
        return None
    shape = (conv.group, conv.y_shape[1] // conv.group, -1)
    integers = _whole(conv, scales).transpose(0, 2, 3, 1).reshape(shape).astype(np.int8)
    found = IntegerRows(integers, np.asarray(scales * _of_products(conv), np.float32).reshape(*shape[:2], 1), 0, 8)
    return found if found.in_words(in_c) else None


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
    if (unit := _of_products(conv)) != 1:
        channels_last = channels_last * np.float32(unit)
    rows = channels_last.reshape(conv.group, conv.y_shape[1] // conv.group, -1)
    return Rows(conv.node.inputs[1], rows, _integers(conv))


def _has_planes(conv: Convolution) -> bool:
    """Whether the input lies row-major, as a plan's input does, and is read so: bringing few channels to NHWC moves as
    much memory as the convolution itself does. Not where the driver does not build the kernel, which no CPU has."""
    x = conv.builder.home(conv.node.inputs[0])
    few = conv.group == 1 and conv.x_shape[1] <= MOST_PLANES
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
    taps, scales = conv.filter.reshape(conv.group, -1), whole_weights(conv.builder.graph, conv.node)
    if _input_steps(conv):
        worth = np.full(conv.group, _of_products(conv))
        if scales is not None:
            taps, worth = _whole(conv, scales).reshape(taps.shape) / _INTEGER_UNIT, worth * scales * _INTEGER_UNIT
        taps = np.concatenate([taps, worth[:, None]], axis=1)
    taps = np.ascontiguousarray(taps.T, np.float32)
    weights = conv.builder.constant(conv.node.inputs[1], taps)
    emit_convolution(conv, "depthwise", "DepthwiseConv2d", conv.window() | {"channels": conv.group}, weights)


def _has_dense_rows(conv: Convolution) -> bool:
    """Whether the rows of input and output follow each other without gaps, or there is only one."""
    builder, node = conv.builder, conv.node
    dense_input = builder.read(node.inputs[0], Storage.NHWC).stride == conv.x_shape[1]
    one_row = conv.x_shape[0] == 1
    return (dense_input or (one_row and conv.kernel == (1, 1))) and (one_row or not builder.is_part(node.output))


def _fully_connected(conv: Convolution) -> None:
    """Emits a convolution whose window covers the whole input: that input, as it lies, is one row of a matrix."""
    builder, node = conv.builder, conv.node
    x, y = builder.read(node.inputs[0], Storage.NHWC), builder.write(node.output, Storage.NHWC)
    tensors: Tensors = {"x": x, "w": filter_rows(conv), "b": _bias(conv), "y": y}
    dims = {"rows": conv.x_shape[0], "in_c": math.prod(conv.x_shape[1:]), "out_c": conv.y_shape[1]}
    emit_fully_connected(builder, node, tensors, dims, conv.shown)


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
    gemm: Tensors = {"v": v, "u": _winograd_rows(node.inputs[1], conv.filter, tile), "m": m}
    builder.launch("winograd_gemm", node.name, "Conv2D", gemm, products, defines=wino, shown=conv.shown)
    residual, has_residual = _residual(conv, x)
    code, numbers = activation_code(node.attrs)
    y = builder.write(node.output, Storage.NHWC)
    tensors: Tensors = {"m": m, "b": _bias(conv), "residual": residual, "y": y}
    defines = wino | {"ACTIVATION": code, "RESIDUAL": has_residual}
    builder.launch("winograd_output", f"{node.name}:output", "WinogradInverse", tensors, after, numbers, defines)
    return ""


def _winograd_rows(name: str, weights: Array, tile: int) -> Rows:
    """Returns the transformed filters as rows to pack: [(tile + 2)^2, output channels, input channels]."""
    out_c, in_c = weights.shape[:2]
    return Rows(name, transform_filter(weights, tile).transpose(2, 3, 0, 1).reshape(-1, out_c, in_c))


BUFFER_LOWERINGS = {"Conv": lower_conv}
BYTE_OPERATORS = {"Conv": takes_bytes}
