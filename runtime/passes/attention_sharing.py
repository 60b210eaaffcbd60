"""What attention shares: Q, K and V become one product; heads read the keys and values they share where they lie."""

import dataclasses
import math
from typing import Any

import numpy as np

from runtime.graph import Graph, Node
from runtime.passes.editor import GraphEditor, pass_over
from runtime.passes.views import SourceView, view_of
from runtime.semantics.generic import row_major_strides

_MOVES = ("Transpose", "Slice", "Reshape", "Strided")
_K, _V = 1, 2  # inputs


@pass_over("Attention")
def share_heads(editor: GraphEditor, node: Node) -> str:
    """Passes over Reshape(Expand(Unsqueeze(x))) before keys and values, which repeats each head for those of a group.

    Where each head has one query, a group is a head with a query for each of its heads, so that keys and values are
    read once.
    """
    batch, heads, queries, keys, depth, values = node.attrs["extents"]
    k, v = (_repeated(editor, node, index, (batch, heads)) for index in (_K, _V))
    if k is None or v is None or k.shape[:3] != v.shape[:3]:
        return ""
    groups, members = k.shape[1:3]
    changed: dict[str, Any] = {"offsets": (node.attrs["offsets"][0], k.offset, v.offset), "members": members}
    for name, view in (("k", k), ("v", v)):
        changed[f"{name}_strides"] = (*view.strides[:2], *view.strides[3:])
    if queries == 1 and not node.attrs["causal"]:
        changed |= {"extents": (batch, groups, members, keys, depth, values), "members": 1}
        for name in ("q", "mask", "y"):
            sequence, head, _, element = node.attrs[f"{name}_strides"]
            changed[f"{name}_strides"] = (sequence, head * members, head, element)
    inputs = [node.inputs[0], k.source, v.source, *node.inputs[3:]]
    editor.rewrite(node, "Attention", inputs, {**node.attrs, **changed})
    return node.name


def _repeated(editor: GraphEditor, node: Node, index: int, leading: tuple[int, int]) -> SourceView | None:
    """Keys or values by (sequence, group, head of it, place, element) where all heads of a group are the same.

    `leading`: sequences and heads.
    """
    tensor, letter = node.inputs[index], "qkv"[index]
    join = editor.producer(tensor, "Reshape")
    shape = editor.graph.shape(tensor)
    if join is None or shape[:-2] not in (leading, (math.prod(leading),)) or node.attrs["offsets"][index]:
        return None
    apart, dense = editor.graph.shape(join.inputs[0]), row_major_strides((*leading, *shape[-2:]))
    strides = zip((*leading, *shape[-2:]), node.attrs[f"{letter}_strides"], dense, strict=True)
    whole = all(stride == own for size, stride, own in strides if size > 1)
    if not whole or len(apart) != 5 or (apart[0], *apart[3:]) != (leading[0], *shape[-2:]):
        return None
    view = view_of(editor, join.inputs[0], *_MOVES)
    return view if apart[2] > 1 and view.strides[2] == 0 else None


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
    groups = heads // reader.attrs["members"]
    extents = {"q": (heads, queries, depth), "k": (groups, keys, depth), "v": (groups, keys, values)}
    for index, letter in enumerate(_LETTERS):
        if reader.inputs[index] != tensor:
            continue
        steps = zip((batch, *extents[letter]), reader.attrs[f"{letter}_strides"], strict=True)
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
