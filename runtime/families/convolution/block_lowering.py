"""Lowers Conv on blocked activations: direct, depthwise, or Winograd's."""

from __future__ import annotations

import math

import numpy as np

from runtime.families.convolution.block_kernels import BLOCKED_CONV2D, BLOCKED_DEPTHWISE, BLOCKED_WINOGRAD
from runtime.families.convolution.node import Convolution, gains_by_winograd, takes_winograd
from runtime.families.convolution.separable import lower_separable, separable_nodes
from runtime.graph import Array, Graph, Node
from runtime.kernels.spec import Kernel, ceil_div
from runtime.layout.winograd import transform_filter
from runtime.lowering.activation import activation_code
from runtime.lowering.blocks import BlockedOperator, is_image
from runtime.lowering.builder import Builder
from runtime.lowering.launch import Tensors
from runtime.lowering.launcher import HALF_WEIGHTS
from runtime.lowering.options import CPU_WINOGRAD
from runtime.lowering.value import Value
from runtime.oracle.fixed_point import fixed_point_of
from runtime.types import Algorithm, ElementType, Storage

# Up to so many channels, a convolution reads the user's row-major image as it lies.
FIRST_CHANNELS = 4
# Outputs of a convolution whose lanes are better filled with inputs (RT_FEW_CHANNELS).
FEW_CHANNELS = 4
# Neighbouring groups are computed as one, the filters between them zeros, where that wastes no more than this factor:
# in row-major order a group of a channel or two takes a hundred times as long for each product.
_MOST_MERGED = 16
# Channels of a group that lanes of one register have; and columns of an output for which its loops are unrolled.
_GROUPS_WITHIN_BLOCK, _LEAST_COLUMNS = (4, 8, 16), 4
# Winograd's transforms pay where so many tiles share the weights, which are four times as many as a direct convolution
# reads: 7x7 and 8x8 images of many channels would wait for them.
_WINOGRAD_MIN_TILES = 6


def fits(graph: Graph, node: Node, block: int) -> bool:
    """Every convolution of images but for groups that do not fill blocks."""
    if not is_image(graph, node) or not graph.is_constant(node.inputs[1]):
        return False
    in_c, out_c, group = graph.shape(node.inputs[0])[1], graph.shape(node.output)[1], node.attrs["group"]
    return in_c == out_c == group or merged_groups(group, in_c // group, out_c // group, block) > 0


def merged_groups(groups: int, in_c: int, out_c: int, block: int) -> int:
    """How many neighbouring groups, of in_c and out_c channels each, make one that fills blocks; 0 where too many."""
    for merged in range(1, min(groups, _MOST_MERGED) + 1):
        fills = merged * in_c % block == 0 and merged * out_c % block == 0
        if merged == groups or (groups % merged == 0 and fills):
            return merged
    return 0


def reads_row_major(graph: Graph, node: Node) -> bool:
    """Whether the convolution can read a row-major image, so that it needs no conversion."""
    return node.attrs["group"] == 1 and graph.shape(node.inputs[0])[1] <= FIRST_CHANNELS


def lower_conv(builder: Builder, node: Node) -> None:
    """Chooses the algorithm from the shapes and emits it as one step."""
    conv = Convolution(builder, node)
    if node.inputs[0] in builder.joined:
        lower_separable(conv)
        return
    if conv.is_depthwise:
        rows = conv.filter.reshape(1, conv.group, -1)
        dims = conv.window() | {"channels": conv.group, "group": 1}
        _emit(conv, BLOCKED_DEPTHWISE, "DepthwiseConv2d", dims, rows, {})
        return
    if (group := group_within_block(conv)) > 1:
        rows = conv.filter.reshape(1, conv.group * group, -1)
        dims = conv.window() | {"channels": conv.group * group, "group": group}
        _emit(conv, BLOCKED_DEPTHWISE, "Conv2D", dims, rows, {})
        return
    groups, filters = merged_filters(conv)
    dims = conv.window() | {"in_c": filters.shape[2], "out_c": filters.shape[1], "groups": groups}
    if algorithm(builder, node) == CPU_WINOGRAD:
        _emit(conv, BLOCKED_WINOGRAD, "Conv2D", dims, *winograd_rows(filters[0]))
    elif has_few_outputs(builder, node):
        _emit(conv, BLOCKED_CONV2D, "Conv2D", dims, few_rows(filters[0]), {"FEW": 1})
    else:
        rows = filters.transpose(0, 1, 3, 4, 2).reshape(groups, filters.shape[1], -1)
        _emit(conv, BLOCKED_CONV2D, "FullyConnected" if conv.is_matrix else "Conv2D", dims, rows, {})


def group_within_block(conv: Convolution) -> int:
    """Channels of a group that lies within a block and is computed as if each channel had filters of its own, else 1.

    As a part of a matrix with zeros, most products would be zero, and each output needs pointers to its inputs.
    """
    outputs, inputs, *window = conv.filter.shape
    alike = conv.group > 1 and outputs // conv.group == inputs and inputs in _GROUPS_WITHIN_BLOCK
    fits = inputs <= conv.builder.block and (window, conv.dilations) == ([3, 3], (1, 1)) and max(conv.strides) <= 2
    return inputs if alike and fits and conv.y_shape[3] >= _LEAST_COLUMNS else 1


def winograd_rows(filters: Array) -> tuple[Array, dict[str, int]]:
    """Filters [out_c, in_c, 3, 3] as Winograd's kernels read them, and the option that says so."""
    return transform_filter(filters, CPU_WINOGRAD.tile), {"WINO": CPU_WINOGRAD.tile}


def has_few_outputs(builder: Builder, node: Node) -> bool:
    """Whether a direct convolution's lanes are better filled with inputs than with outputs."""
    outputs, inputs = builder.graph.shape(node.inputs[1])[:2]
    return node.attrs["group"] == 1 and outputs <= FEW_CHANNELS and inputs >= builder.block


def few_rows(filters: Array) -> Array:
    """Filters [out_c, in_c, k_h, k_w] so that, packed, they are [FEW_CHANNELS][k_h][k_w][in_c, in whole blocks]."""
    every = np.zeros((FEW_CHANNELS, *filters.shape[1:]), filters.dtype)
    every[: len(filters)] = filters
    return every.transpose(0, 2, 3, 1).reshape(-1, filters.shape[1], 1)


def merged_filters(conv: Convolution) -> tuple[int, Array]:
    """The number of groups and the filters [groups, out_c, in_c, k_h, k_w], zeros between groups that became one."""
    out_c, in_c, *window = conv.filter.shape
    merged = merged_groups(conv.group, in_c, out_c // conv.group, conv.builder.block)
    groups, own = conv.group // merged, out_c // conv.group
    filters = conv.filter.reshape(groups, merged, own, in_c, *window)
    wide = np.zeros((groups, merged, own, merged, in_c, *window), conv.filter.dtype)
    for index in range(merged):
        wide[:, index, :, index] = filters[:, index]
    return groups, wide.reshape(groups, merged * own, merged * in_c, *window)


def algorithm(builder: Builder, node: Node, is_exact: bool = False) -> Algorithm:
    """The algorithm chosen for a convolution, else what pays as a rule; DIRECT where Winograd's is not exact enough.

    Args:
        is_exact: whether Winograd's is.
    """
    chosen, graph = builder.options.cpu.algorithms, builder.graph
    if fixed_point_of(graph, node) and not is_exact:
        return Algorithm.DIRECT
    if chosen is not None:
        return chosen.get(node.output, Algorithm.DIRECT) if takes_winograd(graph, node) else Algorithm.DIRECT
    image = graph.shape(node.output)[2:]
    tiles = math.prod(ceil_div(size, CPU_WINOGRAD.tile) for size in image)
    pays = tiles >= _WINOGRAD_MIN_TILES and min(image) >= CPU_WINOGRAD.tile
    return CPU_WINOGRAD if pays and gains_by_winograd(graph, node) else Algorithm.DIRECT


def _emit(
    conv: Convolution, kernel: Kernel, op: str, dims: dict[str, int], rows: Array, defines: dict[str, int]
) -> None:
    builder, node = conv.builder, conv.node
    x, first = _input(conv) if kernel is BLOCKED_CONV2D else (builder.read(node.inputs[0], Storage.BLOCKED), {})
    residual = builder.read(node.inputs[3], Storage.BLOCKED) if node.input(3) else None
    are_floats = kernel is BLOCKED_DEPTHWISE or first or "FEW" in defines
    in_half = not are_floats and builder.holds_in_half(rows)
    weights = builder.constant_rows(node.inputs[1], rows, builder.block, ElementType.F16 if in_half else None)
    bias = builder.constant(node.input(2) or f"{node.name}:bias", conv.bias_data())
    code, numbers = activation_code(node.attrs)
    tensors: Tensors = {"x": x, "w": weights, "b": bias, "residual": residual or x}
    tensors["y"] = builder.write(node.output, Storage.BLOCKED)
    defines = {**defines, **first, "ACTIVATION": code, "RESIDUAL": int(residual is not None), "BLOCK": builder.block}
    if in_half:
        defines |= builder.half_options() if kernel is BLOCKED_CONV2D else HALF_WEIGHTS
    builder.launch(kernel, node.name, op, tensors, dims, numbers, defines, conv.shown)


def _input(conv: Convolution) -> tuple[Value, dict[str, int]]:
    """The image as it lies where that is row-major and the convolution can read it so; else blocked."""
    builder, name = conv.builder, conv.node.inputs[0]
    found = None
    if reads_row_major(builder.graph, conv.node) and not builder.known(name, Storage.BLOCKED):
        found = row_major_image(builder, name)
    return found or (builder.read(name, Storage.BLOCKED), {})


def row_major_image(builder: Builder, tensor: str) -> tuple[Value, dict[str, int]] | None:
    """An image that lies row-major, and the option that tells a first layer in which order."""
    for code, storage in enumerate((Storage.FLAT, Storage.NHWC), 1):
        if (x := builder.known(tensor, storage)) and x.stride in (0, x.shape[1]):
            return x, {"FIRST": code}
    return None


BLOCKED_OPERATORS = {
    "Conv": BlockedOperator(fits, lower_conv, wanted=True, takes_either=reads_row_major, joins=separable_nodes)
}
