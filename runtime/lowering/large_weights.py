"""Layers with more weights than the device allocates at once are computed in parts of their outputs."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator

from runtime.graph import Graph, Node, TensorInfo
from runtime.target import Target

_CHANNELS = {"Conv": 1, "FullyConnected": -1}  # the axis of a layer's output that the rows of its weights make
_ROWS, _COLUMNS = 64, 16  # a part of the packed weights has multiples of, so that packing adds nothing
_WINOGRAD = 4  # times as much its transformed filters of 3x3 take
_END_BYTES = 1 << 10  # of zeros behind them


def in_parts(graph: Graph, target: Target) -> Graph:
    """The graph with each such Conv and FullyConnected as several and a Concat; itself where there is none.

    A grouped Conv stays whole, and so does a layer of which one block of rows is too large.
    """
    rows = {node.output: count for node in graph.nodes if (count := _rows_of_part(graph, node, target))}
    if not rows:
        return graph
    made = dataclasses.replace(graph, nodes=[], tensors=dict(graph.tensors), constants=dict(graph.constants))
    for node in graph.nodes:
        made.nodes += _parts(made, node, rows[node.output]) if node.output in rows else [node]
    return made


def too_large(graph: Graph, node: Node, target: Target) -> str:
    """Which constant of a node is more than the device allocates at once; empty where none is."""
    for name in node.inputs:
        size = graph.constants[name].size * target.element_bytes if name in graph.constants else 0
        if target.memory != "cpu" and size > target.max_allocation_bytes:
            return f"'{name}' has {size} bytes, the device allocates {target.max_allocation_bytes} at most"
    return ""


def _rows_of_part(graph: Graph, node: Node, target: Target) -> int:
    """Rows of the weights that fit into one allocation; 0 where the layer stays whole."""
    if node.op not in _CHANNELS or node.attrs.get("group", 1) != 1 or target.memory == "cpu":
        return 0
    shape = graph.shape(node.inputs[1])
    padded = _COLUMNS * math.ceil(shape[1] / _COLUMNS) * math.prod(shape[2:])
    row_bytes = padded * target.element_bytes * (_WINOGRAD if shape[2:] == (3, 3) else 1)
    rows = (target.max_allocation_bytes - _END_BYTES) // row_bytes
    return int(rows // _ROWS * _ROWS) if rows < shape[0] else 0


def _parts(graph: Graph, node: Node, rows: int) -> Iterator[Node]:
    """Nodes of so many outputs each, which are joined; what is added or multiplied is cut likewise."""
    outputs, shape = [], graph.shape(node.output)
    axis = _CHANNELS[node.op] % len(shape)
    for begin in range(0, shape[axis], rows):
        end = min(begin + rows, shape[axis])
        part, inputs = f"part{begin}", list(node.inputs)
        for index, name in enumerate(node.inputs[1:3], 1):
            if name:
                inputs[index] = f"{name}:{part}"
                graph.constants[inputs[index]] = graph.constants[name][begin:end]
                graph.tensors[inputs[index]] = TensorInfo((end - begin, *graph.shape(name)[1:]))
        for index, name in enumerate(node.inputs[3:], 3):
            if name:
                inputs[index] = f"{node.output}:{part}:{index}"
                graph.tensors[inputs[index]] = TensorInfo((*shape[:axis], end - begin, *shape[axis + 1 :]))
                limits = {"starts": (begin,), "ends": (end,), "axes": (axis,), "steps": (1,)}
                yield Node("Slice", f"{node.name}/{part}/{index}", [name], [inputs[index]], limits)
        outputs.append(f"{node.output}:{part}")
        graph.tensors[outputs[-1]] = TensorInfo((*shape[:axis], end - begin, *shape[axis + 1 :]))
        yield dataclasses.replace(node, name=f"{node.name}/{part}", inputs=inputs, outputs=outputs[-1:])
    yield Node("Concat", node.name, outputs, node.outputs, {"axis": axis})
