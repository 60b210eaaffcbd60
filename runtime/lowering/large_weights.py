"""Layers with more weights than the device allocates at once are computed in parts of their outputs."""

import dataclasses
import math
from collections.abc import Iterator, Sequence

from runtime.graph import Graph, Node, TensorInfo
from runtime.lowering.choice import GraphChoice, NodeChoice, Place
from runtime.target import Target
from runtime.types import ELEMENT_BYTES

_CHANNELS = {"Conv": 1, "FullyConnected": -1}  # the axis of a layer's output that the rows of its weights make
_ROWS, _COLUMNS = 64, 16  # the packed weights of a group have multiples of
_WINOGRAD = 4  # times as much its transformed filters of 3x3 take
_END_BYTES = 1 << 10  # of zeros behind them

Range = tuple[int, int]


def in_parts(graph: Graph, target: Target, choice: GraphChoice | None = None) -> tuple[Graph, GraphChoice | None]:
    """The graph with each such Conv and FullyConnected as several and a Concat, which are chosen to run as it was.

    A depthwise Conv stays whole, and so does a layer that runs on the CPU, or of which one block of rows is too large.
    """
    chosen = dict(choice.nodes) if choice else {}
    ranges = {node.output: _ranges(graph, node, target, chosen.get(node.output)) for node in graph.nodes}
    if not any(ranges.values()):
        return graph, choice
    made = dataclasses.replace(graph, nodes=[], tensors=dict(graph.tensors), constants=dict(graph.constants))
    for node in graph.nodes:
        nodes = list(_parts(made, node, ranges[node.output])) if ranges[node.output] else [node]
        made.nodes += nodes
        if own := chosen.get(node.output):
            chosen |= {each.output: own if each.op == node.op else _moving(own, node) for each in nodes}
    return made, choice and dataclasses.replace(choice, nodes=chosen)


def too_large(graph: Graph, node: Node, target: Target) -> str:
    """Which constant of a node is more than the device allocates at once; empty where none is."""
    for name in node.inputs:
        size = graph.constants[name].size * target.element_bytes if name in graph.constants else 0
        if target.memory != "cpu" and size > target.max_allocation_bytes:
            return f"'{name}' has {size} bytes, the device allocates {target.max_allocation_bytes} at most"
    return ""


def _moving(own: NodeChoice, node: Node) -> NodeChoice:
    """How what cuts and joins a layer's tensors runs: on images where these lie there by channels."""
    place = own.place if node.op == "Conv" else Place.BUFFER
    return NodeChoice(place, precision=own.precision)


def _ranges(graph: Graph, node: Node, target: Target, chosen: NodeChoice | None) -> Sequence[Range]:
    """The outputs of each part: some groups, or rows of one that fit into one allocation; none where it stays whole."""
    group = node.attrs.get("group", 1)
    on_cpu = target.memory == "cpu" or (chosen is not None and chosen.place == Place.CPU)
    if node.op not in _CHANNELS or on_cpu:
        return ()
    shape = graph.shape(node.inputs[1])
    if group > 1 and shape[1] == 1:
        return ()
    element_bytes = ELEMENT_BYTES[(chosen and chosen.element) or target.element]
    row_elements = _COLUMNS * math.ceil(shape[1] / _COLUMNS) * math.prod(shape[2:])
    row_bytes = row_elements * element_bytes * (_WINOGRAD if shape[2:] == (3, 3) else 1)
    rows = (target.max_allocation_bytes - _END_BYTES) // row_bytes // _ROWS * _ROWS
    own = shape[0] // group
    whole = rows // (_ROWS * math.ceil(own / _ROWS))  # groups
    if rows == 0 or whole >= group:
        return ()
    if whole:
        return [(begin, min(begin + whole * own, shape[0])) for begin in range(0, shape[0], whole * own)]
    firsts = range(0, shape[0], own)
    return [(begin, min(begin + rows, first + own)) for first in firsts for begin in range(first, first + own, rows)]


def _parts(graph: Graph, node: Node, ranges: Sequence[Range]) -> Iterator[Node]:
    """Nodes of these outputs, which are joined; what is read, added or multiplied is cut likewise."""
    outputs, shape = [], graph.shape(node.output)
    axis, group = _CHANNELS[node.op] % len(shape), node.attrs.get("group", 1)
    own = shape[axis] // group
    for begin, end in ranges:
        part, inputs, attrs = f"part{begin}", list(node.inputs), node.attrs
        cuts = {index: (axis, begin, end) for index, name in enumerate(inputs) if index >= 3 and name}
        if group > 1:
            first, last = begin // own, math.ceil(end / own)
            channels = graph.shape(node.inputs[1])[1]
            cuts[0], attrs = (1, first * channels, last * channels), {**attrs, "group": last - first}
        for index, name in enumerate(inputs[1:3], 1):
            if name:
                inputs[index] = f"{name}:{part}"
                graph.constants[inputs[index]] = graph.constants[name][begin:end]
                graph.tensors[inputs[index]] = TensorInfo((end - begin, *graph.shape(name)[1:]))
        for index, cut in cuts.items():
            inputs[index] = f"{node.output}:{part}:{index}"
            yield _slice(graph, node.inputs[index], inputs[index], f"{node.name}/{part}/{index}", *cut)
        outputs.append(f"{node.output}:{part}")
        graph.tensors[outputs[-1]] = TensorInfo((*shape[:axis], end - begin, *shape[axis + 1 :]))
        yield dataclasses.replace(node, name=f"{node.name}/{part}", inputs=inputs, outputs=outputs[-1:], attrs=attrs)
    yield Node("Concat", node.name, outputs, node.outputs, {"axis": axis})


def _slice(graph: Graph, tensor: str, made: str, name: str, axis: int, begin: int, end: int) -> Node:
    shape = graph.shape(tensor)
    graph.tensors[made] = TensorInfo((*shape[:axis], end - begin, *shape[axis + 1 :]))
    return Node("Slice", name, [tensor], [made], {"starts": (begin,), "ends": (end,), "axes": (axis,), "steps": (1,)})
