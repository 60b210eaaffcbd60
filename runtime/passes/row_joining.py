"""Row joining: what reads one row in several operators, as decoding does, reads it in one.

The parts of what they write are runs of one row, so that no reader needs a copy of its own.
"""

import itertools
from collections.abc import Callable, Hashable, Iterable, Sequence

import numpy as np

from runtime.graph import Graph, Node
from runtime.layout.integer_rows import integer_rows
from runtime.passes.editor import GraphEditor
from runtime.semantics.generic import row_major_strides

_PLAIN = 3  # inputs of a layer without residual and factor
_ROUNDING = ("FakeQuantize", "FakeQuantize16")
_SHAPES = ("Reshape", "Identity")
_ROTARY_AXES = 4


def join_rows(graph: Graph) -> list[str]:
    """Joins FullyConnected layers of one row, then Rotary operators whose rows lie behind each other and turn alike.

    What a Concat joins with a cache comes first: it is written there in place (`lowering/placement.py`), and the rest
    behind it.
    """
    return [
        *_join_groups(graph, "FullyConnected", _layer_key, _join_layers),
        *_join_groups(graph, "Rotary", _rotary_key, _join_rotaries),
    ]


Key = Callable[[GraphEditor, Node], Hashable]  # of what may be joined; None of what may not
Join = Callable[[GraphEditor, list[Node]], str]


def _join_groups(graph: Graph, op: str, key: Key, join: Join) -> list[str]:
    editor = GraphEditor(graph)
    groups: dict[Hashable, list[Node]] = {}
    for node in editor.nodes(op):
        if (found := key(editor, node)) is not None:
            groups.setdefault(found, []).append(node)
    changes = [join(editor, nodes) for nodes in groups.values() if len(nodes) > 1]
    editor.finish()
    return [change for change in changes if change]


def _layer_key(editor: GraphEditor, node: Node) -> Hashable:
    """The row that a plain layer reads, and how its weights are kept: integers stay integers of the same groups."""
    graph, shape = editor.graph, editor.graph.shape(node.output)
    is_plain = len(node.inputs) <= _PLAIN and "activation" not in node.attrs
    if not is_plain or _size(graph, node.output) != shape[-1] or not editor.readers(node.output):
        return None
    rounded = [editor.producer(node.inputs[0], *_ROUNDING), *editor.readers(node.output)]
    if any(each is not None and each.op in _ROUNDING for each in rounded) or not editor.private(node.inputs[1]):
        return None
    integers = integer_rows(graph.constants[node.inputs[1]][None])
    return node.inputs[0], shape[:-1], integers and (integers.bits, integers.group, integers.offsets is None)


def _join_layers(editor: GraphEditor, nodes: list[Node]) -> str:
    """Writes the joined layer in front of the first one; what the others wrote are slices of that row."""
    graph, first = editor.graph, nodes[0]
    ordered = sorted(nodes, key=lambda node: _place(editor, node.output))
    weights = [graph.constants[node.inputs[1]] for node in ordered]
    inputs = [first.inputs[0], editor.add_constant(f"{first.name}/row_weights", np.concatenate(weights))]
    if any(node.input(2) for node in nodes):
        biases = (
            graph.constants[node.input(2)] if node.input(2) else np.zeros(len(rows))
            for node, rows in zip(ordered, weights, strict=True)
        )
        inputs.append(editor.add_constant(f"{first.name}/row_bias", np.concatenate(list(biases))))
    row = editor.insert_before(first, "FullyConnected", f"{first.name}/row", inputs, {})
    start = 0
    for node in ordered:
        for reader in [each for each in editor.readers(node.output) if each.op == "Rotary"]:
            reader.attrs["offset"] += start
            editor.set_inputs(reader, [row, *reader.inputs[1:]])
        width = graph.shape(node.output)[-1]
        editor.rewrite(node, "Slice", [row], _run(len(graph.shape(row)) - 1, start, width))
        start += width
    return f"{_names(ordered)} as one row"


def _run(axis: int, start: int, width: int) -> dict[str, tuple[int, ...]]:
    return {"axes": (axis,), "starts": (start,), "ends": (start + width,), "steps": (1,)}


def _place(editor: GraphEditor, tensor: str) -> int:
    """0 of what a Concat joins behind a cache, 1 of what is turned before, 2 of all else."""
    readers = list(_readers(editor, tensor))
    if any(_joins_behind(editor, node, tensor) for node, tensor in readers):
        return 0
    turned = (node.output for node, _ in readers if node.op == "Rotary")
    return 1 if any(_place(editor, each) == 0 for each in turned) else 2


def _readers(editor: GraphEditor, tensor: str) -> Iterable[tuple[Node, str]]:
    """What reads a tensor, in whatever shape, and the tensor in that shape."""
    for node in editor.readers(tensor):
        if node.op in _SHAPES:
            yield from _readers(editor, node.output)
        else:
            yield node, tensor


def _joins_behind(editor: GraphEditor, node: Node, tensor: str) -> bool:
    return node.op == "Concat" and node.inputs[-1] == tensor and node.inputs[0] in editor.graph.inputs


def _rotary_key(editor: GraphEditor, node: Node) -> Hashable:
    """What rows that follow each other are read from, and the one row of angles that they turn by."""
    shape, tables = editor.graph.shape(node.output), node.inputs[1:]
    dense = zip(shape, node.attrs["strides"], row_major_strides(shape), strict=True)
    is_run = all(size == 1 or step == own for size, step, own in dense)
    if not is_run or any(_size(editor.graph, table) != editor.graph.shape(table)[-1] for table in tables):
        return None
    return node.inputs[0], shape[-1], *(_content(editor.graph, table) for table in tables)


def _content(graph: Graph, tensor: str) -> Hashable:
    return graph.constants[tensor].tobytes() if graph.is_constant(tensor) else tensor


def _join_rotaries(editor: GraphEditor, nodes: list[Node]) -> str:
    """Turns the rows of all that lie behind each other at once."""
    graph, ordered = editor.graph, sorted(nodes, key=lambda node: int(node.attrs["offset"]))
    sizes = [_size(graph, node.output) for node in ordered]
    ends = [node.attrs["offset"] + size for node, size in zip(ordered, sizes, strict=True)]
    if any(node.attrs["offset"] != end for node, end in zip(ordered[1:], ends, strict=False)):
        return ""
    first, width, total = nodes[0], graph.shape(nodes[0].output)[-1], sum(sizes)
    shape = (1,) * (_ROTARY_AXES - 2) + (total // width, width)
    attributes = {"shape": shape, "strides": (0, 0, width, 1), "offset": ordered[0].attrs["offset"]}
    turned = editor.insert_before(first, "Rotary", f"{first.name}/row", first.inputs, attributes)
    row = editor.insert_before(first, "Reshape", f"{first.name}/row", [turned], {"shape": (1, total)})
    for node, size, end in zip(ordered, sizes, itertools.accumulate(sizes), strict=True):
        part = editor.insert_before(first, "Slice", f"{node.name}/part", [row], _run(1, end - size, size))
        editor.rewrite(node, "Reshape", [part], {"shape": graph.shape(node.output)})
    return f"{_names(ordered)} as one row"


def _size(graph: Graph, tensor: str) -> int:
    return graph.tensors[tensor].size


def _names(nodes: Sequence[Node]) -> str:
    return ", ".join(node.name for node in nodes)
