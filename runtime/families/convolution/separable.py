"""Depthwise separable convolutions as one step of the CPU: perhaps 1x1 to more channels, depthwise, 1x1 to fewer."""

import math
from collections.abc import Collection, Iterator

import numpy as np

from runtime.families.convolution.block_kernels import BLOCKED_SEPARABLE
from runtime.families.convolution.node import Convolution
from runtime.graph import Array, Graph, Node
from runtime.layout.buffer import pack_rows
from runtime.lowering.activation import activation_code
from runtime.lowering.builder import Builder
from runtime.lowering.launch import Tensors
from runtime.types import Storage

# The step is row by row: the rows that it needs, and the weights, which it reads for each, have to stay in a core's L2.
_MOST_ROW_BYTES = 192 << 10
_MOST_WEIGHT_BYTES = 64 << 10
# What lies between the convolutions leaves the cores' caches from so many bytes on: else three steps are as fast.
_LEAST_BYTES = 3 << 19


def separable_nodes(builder: Builder, node: Node, free: Collection[str]) -> Iterator[Node]:
    """The nodes before a 1x1 convolution that are computed with it, of those whose outputs are given."""
    graph, chosen = builder.graph, builder.options.cpu.separable
    deep = _hidden(graph, node.inputs[0], free)
    if deep is None or not Convolution(builder, node).is_pointwise:
        return
    if deep.op != "Conv" or deep.input(3) or not Convolution(builder, deep).is_depthwise:
        return
    wide = _hidden(graph, deep.inputs[0], free)
    expansion = [wide] if wide is not None and _expands(builder, wide, deep) else []
    nodes = [*expansion, deep]
    if _stays_in_cache(graph, node, deep) and (
        node.output in chosen if chosen is not None else _pays(graph, node, nodes)
    ):
        yield from nodes


def _hidden(graph: Graph, tensor: str, free: Collection[str]) -> Node | None:
    """What writes a tensor that nobody but one node needs."""
    return graph.producer(tensor) if tensor in free and len(graph.consumers(tensor)) == 1 else None


def _expands(builder: Builder, wide: Node, deep: Node) -> bool:
    alike = wide.op == deep.op and activation_code(wide.attrs) == activation_code(deep.attrs)
    return alike and not wide.input(3) and Convolution(builder, wide).is_pointwise


def _bytes(graph: Graph, tensor: str) -> int:
    return 4 * math.prod(graph.shape(tensor)[1:])


def _stays_in_cache(graph: Graph, node: Node, deep: Node) -> bool:
    (_, channels, _, in_w), (_, _, _, out_w) = graph.shape(deep.inputs[0]), graph.shape(deep.output)
    window, dilation = graph.shape(deep.inputs[1])[2], deep.attrs["dilations"][0]
    rows = 4 * channels * (in_w * ((window - 1) * dilation + 1) + out_w)
    return rows <= _MOST_ROW_BYTES and 4 * channels * graph.shape(node.output)[1] <= _MOST_WEIGHT_BYTES


def _pays(graph: Graph, node: Node, nodes: Collection[Node]) -> bool:
    """Where the step narrows, and its inner tensors are large."""
    narrows = 2 * graph.shape(node.output)[1] <= graph.shape(node.inputs[0])[1]
    return narrows and sum(_bytes(graph, each.output) for each in nodes) >= _LEAST_BYTES


def lower_separable(last: Convolution) -> None:
    """Emits one step for a 1x1 convolution and those before it that are computed with it."""
    builder, node = last.builder, last.node
    parts = [last]
    while (name := parts[0].node.inputs[0]) in builder.joined:
        parts.insert(0, Convolution(builder, _writer(builder, name)))
    deep, dims = parts[-2], parts[-2].window() | {"channels": last.x_shape[1]}
    dims |= {"in_c": parts[0].x_shape[1], "out_c": last.y_shape[1]}
    weights = np.concatenate([pack_rows(_rows(conv), builder.block) for conv in parts])
    bias = np.concatenate([pack_rows(conv.bias_data().reshape(1, -1, 1), builder.block) for conv in parts])
    x = builder.read(parts[0].node.inputs[0], Storage.BLOCKED)
    residual = builder.read(node.inputs[3], Storage.BLOCKED) if node.input(3) else None
    (inner, inner_numbers), (code, numbers) = (activation_code(conv.node.attrs) for conv in (deep, last))
    floats = {f"inner_{name[-1]}": value for name, value in inner_numbers.items()} | numbers
    tensors: Tensors = {
        "x": x,
        "w": builder.constant(f"{node.name}:weights", weights),
        "b": builder.constant(f"{node.name}:biases", bias),
        "residual": residual or x,
        "y": builder.write(node.output, Storage.BLOCKED),
    }
    defines = {"ACTIVATION": code, "INNER": inner, "EXPAND": len(parts) - 2, "RESIDUAL": int(residual is not None)}
    defines["BLOCK"] = builder.block
    builder.launch(BLOCKED_SEPARABLE, node.name, "Conv2D", tensors, dims, floats, defines, last.shown)


def _writer(builder: Builder, tensor: str) -> Node:
    writer = builder.graph.producer(tensor)
    assert writer is not None  # only what a node writes is joined
    return writer


def _rows(conv: Convolution) -> Array:
    """Filters as the convolution's own kernel reads them."""
    return (
        conv.filter.reshape(1, conv.group, -1) if conv.is_depthwise else conv.filter.reshape(1, *conv.filter.shape[:2])
    )
