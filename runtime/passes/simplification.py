"""Constant folding, identity removal, merging of Reshapes and of equal nodes, and removal of dead code."""

from __future__ import annotations

from runtime.graph import Graph, Node
from runtime.oracle.evaluate import compute
from runtime.passes.editor import GraphEditor


def fold_constants(graph: Graph) -> list[str]:
    """Evaluates nodes whose inputs are all constant; returns the names of those nodes."""
    editor = GraphEditor(graph)
    changes = []
    for node in editor.nodes():
        if all(graph.is_constant(name) for name in node.inputs if name):
            arguments = [graph.constants.get(name) for name in node.inputs]
            graph.constants[node.output] = compute(node.op, arguments, node.attrs)
            editor.drop(node)
            changes.append(node.name)
    editor.finish()
    return changes


def remove_identities(graph: Graph) -> list[str]:
    """Removes identities, unless an output of the graph would lose its name; returns the names of removed nodes."""
    editor = GraphEditor(graph)
    changes = [node.name for node in editor.nodes() if _is_identity(graph, node) and editor.bypass(node)]
    editor.finish()
    return changes


def _is_identity(graph: Graph, node: Node) -> bool:
    if node.op == "Identity":
        return True
    if node.op == "Pad":
        return not any(node.attrs["pads"])
    if node.op == "Reshape":
        return bool(node.attrs["shape"] == graph.shape(node.inputs[0]))
    if node.op == "Transpose":
        return bool(node.attrs["perm"] == tuple(sorted(node.attrs["perm"])))
    return node.op == "Concat" and len(node.inputs) == 1


def merge_reshapes(graph: Graph) -> list[str]:
    """Makes a Reshape read the input of the Reshape before it."""
    editor = GraphEditor(graph)
    changes = []
    for node in editor.nodes("Reshape"):
        first = editor.producer(node.inputs[0], "Reshape")
        if first is not None:
            editor.set_inputs(node, first.inputs)
            changes.append(f"{first.name} into {node.name}")
    editor.finish()
    return changes


def merge_equals(graph: Graph) -> list[str]:
    """Makes readers of a Reshape or a rounding read an earlier one of the same tensor: exporters write one for each."""
    editor = GraphEditor(graph)
    first: dict[object, Node] = {}
    changes = []
    for node in editor.nodes("Reshape", "FakeQuantize"):
        same = first.setdefault((node.op, tuple(node.inputs), tuple(sorted(node.attrs.items()))), node)
        if same is node or node.output in graph.outputs:
            continue
        for reader in list(editor.readers(node.output)):
            editor.set_inputs(reader, [same.output if name == node.output else name for name in reader.inputs])
        editor.drop(node)
        changes.append(f"{node.name} as {same.name}")
    editor.finish()
    return changes


def remove_dead_code(graph: Graph) -> list[str]:
    """Removes nodes that nothing reads, last first; returns their names."""
    editor = GraphEditor(graph)
    changes = []
    for node in reversed(list(editor.nodes())):
        if not editor.readers(node.output) and node.output not in graph.outputs:
            editor.drop(node)
            changes.append(node.name)
    editor.finish()
    return changes
