"""Lowers Conv on activations of eight bits in blocks (`Builder.read_bytes`).

Direct and depthwise in integers, sums in 32 bits. Winograd's algorithm saves more multiplications than bytes gain with
AVX2 or NEON, but fewer than they gain with AVX-512 VNNI. With AVX2 it is in integers too, and exact; elsewhere, and
where weights are no whole steps, it makes floats of the bytes that it reads.
"""

from __future__ import annotations

import math

import numpy as np

from runtime.families.convolution.block_kernels import (
    INTEGER_WINOGRAD,
    QUANTIZED_CONV2D,
    QUANTIZED_DEPTHWISE,
    QUANTIZED_WINOGRAD,
)
from runtime.families.convolution.block_lowering import (
    algorithm,
    fits,
    merged_filters,
    reads_row_major,
    row_major_image,
    winograd_rows,
)
from runtime.families.convolution.node import Convolution
from runtime.families.matrix.byte_products import MOST_PRODUCTS, bits_of_fixed, fixed_ends, found_ends
from runtime.graph import Array, Graph, Node
from runtime.kernels.codes import BYTES_BOUNDED, BYTES_PAIRS, INPUT_IN_BYTES, OUTPUT_IN_BYTES, RESIDUAL_IN_BYTES
from runtime.kernels.spec import Kernel, ceil_div
from runtime.layout.buffer import pack_rows
from runtime.layout.integer_rows import integer_rows, judged_once
from runtime.lowering.activation import activation_code
from runtime.lowering.blocks import QuantizedOperator
from runtime.lowering.builder import Builder
from runtime.lowering.launch import Tensors
from runtime.lowering.options import CPU_WINOGRAD
from runtime.lowering.value import Value, byte_bounds
from runtime.oracle.fixed_point import fixed_point_of
from runtime.semantics.quantization import EIGHT_BITS
from runtime.types import ElementType, Storage

_QUAD = 4  # channels of a lane that follow each other (cpu_quantized.h)
_MOST_TAPS = 2**24 // (255 * 128)  # of a depthwise window, so that floats hold a sum of its products as it is
# Multiply-adds for an input that has to be brought into eight bits first, from which on that is paid back.
_MIN_MACS = 64
# The filters' transform of Winograd's F(4x4, 3x3) in integers, whose sums of products are known within 25 bits.
_INTEGER_FILTERS = np.array([[6, 0, 0], [-1, -1, -1], [-1, 1, -1], [1, 2, 4], [1, -2, 4], [0, 0, 6]], np.float64)
_MOST_OF_A_SIGN = 2**25 // 255  # that the weights of a channel and a sign may sum to there
_WIDE = 16  # channels that are brought together (cpu_quantized.h)
_MOST_RESULT = 2**30  # that BYTES_BOUNDED tells of
_MOST_OF_A_PAIR = 128  # that a pair of weights of one sign may sum to, so that 16 bits hold its products with bytes


def serves(builder: Builder, node: Node) -> bool:
    """Whether input and weights are whole numbers of eight bits; weights of Winograd's algorithm may be any."""
    graph, is_found = builder.graph, builder.has_found_steps(node.inputs[0])
    if not fits(graph, node, builder.block) or (graph.tensors[node.inputs[0]].quantization is None and not is_found):
        return False
    if _is_float_winograd(builder, node):
        return not node.input(3) and not is_found
    channels, *window = graph.shape(node.inputs[1])[1:]
    if Convolution(builder, node).is_depthwise and math.prod(window) > _MOST_TAPS // (1 + is_found):
        return False
    products = math.prod(window) * (channels * (1 if node.attrs["group"] == 1 else 4) + _QUAD)
    return products <= MOST_PRODUCTS and _weights(builder, node) is not None


def pays(builder: Builder, node: Node) -> bool:
    """Whether it pays to bring the input into eight bits for the convolution alone."""
    graph, known = builder.graph, builder.graph.tensors[node.inputs[0]].quantization
    if known is None or not known.is_whole or known.integers not in EIGHT_BITS:
        return False
    if builder.target.memory == "cpu" and _is_float_winograd(builder, node):
        return False
    macs = math.prod(graph.shape(node.output)) * math.prod(graph.shape(node.inputs[1])[1:])
    return macs >= _MIN_MACS * math.prod(graph.shape(node.inputs[0]))


def _rounds_image(builder: Builder, node: Node) -> bool:
    """Whether the convolution can round a row-major image in floats as it reads it."""
    is_winograd = _is_float_winograd(builder, node) or _is_integer_winograd(builder, node)
    return not is_winograd and not Convolution(builder, node).is_depthwise and reads_row_major(builder.graph, node)


def _is_float_winograd(builder: Builder, node: Node) -> bool:
    """Whether Winograd's algorithm was chosen, or pays, but not in integers."""
    is_open = builder.options.cpu.algorithms is None
    if is_open and builder.target.cpu_vnni and _weights(builder, node) is not None:
        return False
    return algorithm(builder, node) == CPU_WINOGRAD and not _is_integer_winograd(builder, node)


def _is_integer_winograd(builder: Builder, node: Node) -> bool:
    """Whether it serves in integers: sums of a channel's products with bytes are within 25 bits."""
    target = builder.target
    if builder.has_found_steps(node.inputs[0]) or not (target.memory == "cpu" and target.cpu_pairs):
        return False
    if algorithm(builder, node, is_exact=True) != CPU_WINOGRAD:
        return False
    scales, weights = whole_weights(builder.graph, node), builder.graph.constants[node.inputs[1]]
    return scales is not None and bool(judged_once(weights, "sums", lambda: _sums_fit(weights, scales)))


def _sums_fit(weights: Array, scales: Array) -> bool:
    whole = np.rint(weights / scales[:, None, None, None])
    return all((whole * sign).clip(0).sum(axis=(1, 2, 3)).max() <= _MOST_OF_A_SIGN for sign in (1, -1))


def whole_weights(graph: Graph, node: Node) -> Array | None:
    """The scale of each output channel of which the weights are whole multiples of eight bits; else None."""
    weights, known = graph.constants[node.inputs[1]], graph.tensors[node.inputs[1]].quantization
    if known is None or known.axis not in (None, 0) or any(known.zero_point):
        return None
    return judged_once(weights, known.scale, lambda: _whole_scales(weights, known.scale))


def _whole_scales(weights: Array, scale: tuple[float, ...]) -> Array | None:
    scales = np.broadcast_to(np.array(scale, np.float64), weights.shape[:1])
    steps = weights / scales[:, None, None, None]
    whole = np.abs(steps - np.rint(steps)).max() < 1e-2 and steps.min() > -128.5 and steps.max() < 127.5
    return scales if whole else None


def _weights(builder: Builder, node: Node) -> tuple[Array, Array] | None:
    """Scale and offset of each output channel whose weights are multiples of whole numbers of eight bits; else None."""
    graph = builder.graph
    if not builder.has_found_steps(node.inputs[0]):
        scales = whole_weights(graph, node)
        return None if scales is None else (scales, np.zeros(len(scales)))
    filters = graph.constants[node.inputs[1]]
    found = integer_rows(filters.reshape(1, len(filters), -1), has_offsets=True)
    if found is None or found.offsets is None:
        return None
    return found.scales.reshape(-1).astype(np.float64), found.offsets.reshape(-1)


def lower_conv(builder: Builder, node: Node) -> None:
    """Emits one step: it writes eight bits where the output is stored so, else floats."""
    conv = Convolution(builder, node)
    if _is_float_winograd(builder, node):
        _emit_winograd(conv)
        return
    found = _weights(builder, node)
    assert found is not None
    if conv.is_depthwise:
        scales, offsets = (each.reshape(1, -1) for each in found)
        filters = np.rint(conv.filter.reshape(1, conv.group, -1) / scales[..., None]) - offsets[..., None]
        weights, dims = pack_rows(filters, builder.block), conv.window() | {"channels": conv.group}
        _emit(conv, QUANTIZED_DEPTHWISE, weights, dims, scales, np.zeros((1, conv.group)), offsets)
        return
    groups, filters = merged_filters(conv)
    scales, offsets = (each.reshape(groups, -1) for each in found)
    filters = np.rint(filters / scales[..., None, None, None]) - offsets[..., None, None, None]
    dims = conv.window() | {"in_c": filters.shape[2], "out_c": filters.shape[1], "groups": groups}
    is_winograd = _is_integer_winograd(builder, node)
    kernel = INTEGER_WINOGRAD if is_winograd else QUANTIZED_CONV2D
    weights = integer_filters(filters[0], builder.block) if is_winograd else quads(filters, builder.block)
    _emit(conv, kernel, weights, dims, scales, filters.sum(axis=(2, 3, 4)), offsets)


def quads(filters: Array, block: int) -> Array:
    """[groups, out_c, in_c, k_h, k_w] as [groups][ceil(out_c/block)][taps][ceil(in_c/4)][block][4], zero-filled."""
    groups, out_c, in_c, *window = filters.shape
    blocks, quads, taps = ceil_div(out_c, block), ceil_div(in_c, _QUAD), math.prod(window)
    wide = np.zeros((groups, blocks * block, quads * _QUAD, taps), np.int8)
    wide[:, :out_c, :in_c] = filters.reshape(groups, out_c, in_c, taps)
    return wide.reshape(groups, blocks, block, quads, _QUAD, taps).transpose(0, 1, 5, 3, 2, 4)


def integer_filters(filters: Array, block: int) -> Array:
    """[out_c, in_c, 3, 3], transformed, as the bytes of words [36][ceil(out_c/block)][ceil(in_c/16) * 8][block][2]."""
    out_c, in_c = filters.shape[:2]
    blocks, depth = ceil_div(out_c, block), ceil_div(in_c, _WIDE) * _WIDE
    points = len(_INTEGER_FILTERS) ** 2
    wide = np.zeros((points, blocks * block, depth), np.int16)
    transformed = np.rint(_INTEGER_FILTERS @ filters @ _INTEGER_FILTERS.T)
    wide[:, :out_c, :in_c] = transformed.reshape(out_c, in_c, points).transpose(2, 0, 1)
    packed = wide.reshape(points, blocks, block, depth // 2, 2).transpose(0, 1, 3, 2, 4)
    return np.ascontiguousarray(packed).view(np.int8)


def pairs(packed: Array) -> int:
    """A bit of BYTES: whether the products of neighbouring weights sum to 16 bits, of what `quads` packed."""
    both = packed.reshape(-1, 2).astype(np.int16)
    return BYTES_PAIRS * all((both * sign).clip(0).sum(axis=1).max() <= _MOST_OF_A_PAIR for sign in (1, -1))


def bounded(products: int, scales: Array, biases: Array) -> int:
    """A bit of BYTES: whether all results, of so many products of an output, are far from the bounds of 32 bits."""
    return BYTES_BOUNDED * bool(255 * 128 * products * scales.max() + np.abs(biases).max() < _MOST_RESULT)


def as_floats(whole: Array) -> Array:
    """The bits of int32 as those of floats."""
    return np.ascontiguousarray(whole, np.int32).view(np.float32)


def _emit(
    conv: Convolution,
    kernel: Kernel,
    weights: Array,
    dims: dict[str, int],
    scales: Array,
    totals: Array,
    offsets: Array,
) -> None:
    """`scales`, `totals`: of the weights of each output channel, and their sum; zero where the kernel takes the zero
    point away itself. `offsets`: what the weights lack."""
    builder, node = conv.builder, conv.node
    x, first = _input(conv)
    residual = _residual(builder, node.input(3))
    y = _written(builder, node)
    y_step = y.steps.step if y.steps else 1.0
    steps = builder.steps_of(node.inputs[0])
    bias, of_sums = conv.bias_data().reshape(scales.shape).astype(np.float64), scales * steps.step
    residual_scale = residual.steps.step if residual and residual.steps else 1.0
    if residual and residual.steps:
        bias = bias - residual.steps.zero * residual.steps.step
    rows = [bias - of_sums * totals * (steps.zero - shift) for shift in (0, 128)]
    code, numbers = activation_code(node.attrs)
    numbers = byte_bounds(y.steps, "act_a act_b") if y.steps else numbers
    ends, found_bits = (_lanes(builder, of_sums / y_step), np.stack([_lanes(builder, row / y_step) for row in rows])), 0
    if steps.is_found:
        laid_rows = (_lanes(builder, row) for row in (bias / y_step, totals, offsets))
        biases, found_bits = found_ends(*laid_rows)
        ends = ends[0], biases
    found = fixed_point_of(builder.graph, node) if y.steps else None
    if found:
        given = builder.graph.constants[node.input(2)] if node.input(2) else None
        both = fixed_ends(found, given, totals.reshape(-1), steps.zero)
        laid = ([_lanes(builder, row.reshape(scales.shape)) for row in each] for each in both)
        scale_row, bias_rows = (as_floats(np.stack(each)) for each in laid)
        ends = scale_row, bias_rows
    tensors: Tensors = {
        "x": x,
        "w": builder.constant_bytes(node.inputs[1], weights),
        "scales": builder.constant(f"{node.name}:scales", ends[0]),
        "b": builder.constant(node.input(2) or f"{node.name}:bias", ends[1]),
        "residual": residual or x,
        "y": y,
    }
    in_bytes = OUTPUT_IN_BYTES * (y.steps is not None) + RESIDUAL_IN_BYTES * (
        residual is not None and residual.steps is not None
    )
    defines = {"ACTIVATION": code, "RESIDUAL": int(residual is not None), "BLOCK": builder.block}
    products = dims["k_h"] * dims["k_w"] * dims.get("in_c", 1)
    may_bound = kernel is not INTEGER_WINOGRAD and not steps.is_found
    in_bytes |= found_bits | (bits_of_fixed(found) if found else bounded(products, *ends) if may_bound else 0)
    in_bytes |= pairs(weights) if kernel is QUANTIZED_CONV2D else 0
    defines |= {"BYTES": in_bytes, "ZERO": steps.zero}
    numbers |= {"residual_scale": residual_scale / y_step} | (
        {"step": steps.step} if kernel is QUANTIZED_CONV2D else {}
    )
    builder.launch(
        kernel, node.name, kernel.operator, tensors, dims, numbers, defines | first, conv.shown, "eight bits"
    )


def _input(conv: Convolution) -> tuple[Value, dict[str, int]]:
    """The bytes, or the image in floats where the convolution is to round it."""
    builder, name = conv.builder, conv.node.inputs[0]
    if name not in builder.joined:
        return builder.read_bytes(name), {}
    rounding = builder.graph.producer(name)
    assert rounding is not None
    return row_major_image(builder, rounding.inputs[0]) or (
        builder.read(rounding.inputs[0], Storage.FLAT),
        {"FIRST": 1},
    )


def _emit_winograd(conv: Convolution) -> None:
    """The step of the input and that of the output are part of the weights."""
    builder, node = conv.builder, conv.node
    x, y = builder.read_bytes(node.inputs[0]), _written(builder, node)
    assert x.steps is not None
    y_step = y.steps.step if y.steps else 1.0
    dims = conv.window() | {"in_c": conv.x_shape[1], "out_c": conv.y_shape[1], "groups": 1}
    rows, defines = winograd_rows(conv.filter * (x.steps.step / y_step))
    code, numbers = activation_code(node.attrs)
    tensors: Tensors = {
        "x": x,
        "w": builder.constant_rows(node.inputs[1], rows, builder.block),
        "b": builder.constant(node.input(2) or f"{node.name}:bias", conv.bias_data() / y_step),
        "residual": x,
        "y": y,
    }
    defines |= {"ACTIVATION": code, "RESIDUAL": 0, "BLOCK": builder.block, "ZERO": x.steps.zero}
    defines["BYTES"] = INPUT_IN_BYTES | OUTPUT_IN_BYTES * (y.steps is not None)
    numbers = byte_bounds(y.steps, "act_a act_b") if y.steps else numbers
    builder.launch(QUANTIZED_WINOGRAD, node.name, "Conv2D", tensors, dims, numbers, defines, conv.shown, "eight bits")


def _written(builder: Builder, node: Node) -> Value:
    """The output, in bytes where it is stored so."""
    stored = builder.in_bytes(node.output)
    return builder.write_bytes(node.output) if stored else builder.write(node.output, Storage.BLOCKED)


def _residual(builder: Builder, name: str) -> Value | None:
    """The tensor that is added, as it lies: in bytes or in floats."""
    if not name:
        return None
    home = builder.home(name)
    in_bytes = home.element == ElementType.U8 and not (home.steps and home.steps.is_found)
    return builder.read_bytes(name) if in_bytes else builder.read(name, Storage.BLOCKED)


def _lanes(builder: Builder, values: Array) -> Array:
    """Numbers [groups, out_c] of each output channel, zero-filled to whole blocks."""
    return pack_rows(values[..., None], builder.block).reshape(-1)


QUANTIZED_OPERATORS = {
    "Conv": QuantizedOperator(serves, lower_conv, pays, rounds=False, inputs=1, rounds_image=_rounds_image)
}
