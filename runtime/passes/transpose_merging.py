"""Transpose merging: several in a row become one, and one that only moves axes of size 1 becomes a Reshape."""

from __future__ import annotations

from runtime.formats.permutation import Permutation, composed, moves_elements
from runtime.graph import Graph, Node
from runtime.passes.editor import GraphEditor
from runtime.passes.transpose_movement.cost import transpose_bytes


def merge_transposes(graph: Graph) -> list[str]:
    """Composes transpositions where that moves no more bytes; identity removal drops those that cancel."""
    editor = GraphEditor(graph)
    changes = [*_composed(editor), *_trivial(editor)]
    editor.finish()
    return changes


def _composed(editor: GraphEditor) -> list[str]:
    changes = []
    for node in editor.nodes("Transpose"):
        first = editor.producer(node.inputs[0], "Transpose")
        if first is None:
            continue
        perm = composed(first.attrs["perm"], node.attrs["perm"])
        if editor.private(first.output) or _moves_no_more(editor, first, node, perm):
            editor.rewrite(node, "Transpose", [first.inputs[0]], {"perm": perm})
            changes.append(f"{first.name} into {node.name}")
    return changes


def _moves_no_more(editor: GraphEditor, first: Node, node: Node, perm: Permutation) -> bool:
    """Whether one step from the source moves no more than the second of two, where the first one stays for others."""
    now = transpose_bytes(editor.graph, first.output, node.attrs["perm"])
    return transpose_bytes(editor.graph, first.inputs[0], perm) <= now


def _trivial(editor: GraphEditor) -> list[str]:
    changes = []
    for node in editor.nodes("Transpose"):
        perm = node.attrs["perm"]
        if perm != tuple(sorted(perm)) and not moves_elements(editor.graph.shape(node.inputs[0]), perm):
            editor.rewrite(node, "Reshape", node.inputs, {"shape": editor.graph.shape(node.output)})
            changes.append(f"{node.name} into a Reshape")
    return changes
