"""Shared products: layers that read one tensor, and that attention reads, become one: Q, K and V are one product."""

from __future__ import annotations

import dataclasses

import numpy as np

from runtime.graph import Graph, Node
from runtime.passes.editor import GraphEditor

_PLAIN = 3  # inputs of a layer without residual and factor
_LETTERS = "qkv"


@dataclasses.dataclass(frozen=True)
class _Columns:
    """Where the outputs of a layer stand in the rows of the joined one."""

    first: int
    width: int
    of_all: int

    def place(self, element: int) -> int:
        """The place of an element, or a stride, of the layer's dense output."""
        row, column = divmod(element, self.width)
        return row * self.of_all + column


def join_products(graph: Graph) -> list[str]:
    """Joins FullyConnected layers of one input whose outputs only attention reads, row by row, where it says.

    Attention finds queries, keys and values by strides, so that nothing is copied.
    """
    editor = GraphEditor(graph)
    by_input: dict[str, list[Node]] = {}
    for node in editor.nodes("FullyConnected"):
        if _can_join(editor, node):
            by_input.setdefault(node.inputs[0], []).append(node)
    changes = [_join(editor, nodes) for nodes in by_input.values() if len(nodes) > 1]
    editor.finish()
    return changes


def _can_join(editor: GraphEditor, node: Node) -> bool:
    readers = editor.readers(node.output)
    own = editor.graph.is_constant(node.inputs[1]) and len(node.inputs) <= _PLAIN and "activation" not in node.attrs
    read = bool(readers) and node.output not in editor.graph.outputs
    return own and read and all(_reads_by_rows(editor, reader, node.output) for reader in readers)


def _reads_by_rows(editor: GraphEditor, reader: Node, tensor: str) -> bool:
    """Whether attention reads a tensor as queries, keys or values, and no run of its loops leaves a row."""
    if reader.op != "Attention" or tensor in reader.inputs[len(_LETTERS) :]:
        return False
    width = editor.graph.shape(tensor)[-1]
    batch, heads, queries, keys, depth, values = reader.attrs["extents"]
    extents = {"q": (queries, depth), "k": (keys, depth), "v": (keys, values)}
    for index, letter in enumerate(_LETTERS):
        if reader.inputs[index] != tensor:
            continue
        steps = zip((batch, heads, *extents[letter]), reader.attrs[f"{letter}_strides"], strict=True)
        reach = sum((size - 1) * (step % width) for size, step in steps)
        if reader.attrs["offsets"][index] % width + reach >= width:
            return False
    return True


def _join(editor: GraphEditor, nodes: list[Node]) -> str:
    """Writes the joined layer in front of the first one, and makes all readers read it."""
    graph, first = editor.graph, nodes[0]
    weights = [graph.constants[node.inputs[1]] for node in nodes]
    widths = [len(rows) for rows in weights]
    biases = [
        graph.constants[node.input(2)] if node.input(2) else np.zeros(width)
        for node, width in zip(nodes, widths, strict=True)
    ]
    inputs = [first.inputs[0], editor.add_constant(f"{first.name}/joined_weights", np.concatenate(weights))]
    if any(node.input(2) for node in nodes):
        inputs.append(editor.add_constant(f"{first.name}/joined_bias", np.concatenate(biases)))
    joined = editor.insert_before(first, "FullyConnected", f"{first.name}/joined", inputs, {})
    for index, node in enumerate(nodes):
        columns = _Columns(sum(widths[:index]), widths[index], sum(widths))
        while readers := editor.readers(node.output):
            _redirect(editor, readers[0], node.output, joined, columns)
    for node in nodes:
        editor.drop(node)
    return f"{', '.join(node.name for node in nodes)} as one"


def _redirect(editor: GraphEditor, reader: Node, tensor: str, joined: str, columns: _Columns) -> None:
    inputs, offsets = list(reader.inputs), list(reader.attrs["offsets"])
    for index, letter in enumerate(_LETTERS):
        if inputs[index] == tensor:
            inputs[index] = joined
            offsets[index] = columns.place(offsets[index]) + columns.first
            strides = reader.attrs[f"{letter}_strides"]
            reader.attrs[f"{letter}_strides"] = tuple(columns.place(step) for step in strides)
    reader.attrs["offsets"] = tuple(offsets)
    editor.set_inputs(reader, inputs)
