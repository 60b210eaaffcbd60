"""Transpose cancellation: several in a row become one, and one that only moves axes of size 1 becomes a Reshape."""

from __future__ import annotations

from runtime.graph import Graph
from runtime.operators import UNARY
from runtime.passes.editor import GraphEditor


def merge_transposes(graph: Graph) -> list[str]:
    """Composes transpositions, also across a unary operator between two; identity removal drops those that cancel."""
    editor = GraphEditor(graph)
    changes = [change for change in (*_sunk(editor), *_composed(editor), *_trivial(editor)) if change]
    editor.finish()
    return changes


def _composed(editor: GraphEditor) -> list[str]:
    changes = []
    for node in editor.nodes("Transpose"):
        first = editor.producer(node.inputs[0], "Transpose")
        if first is not None:
            perm = tuple(first.attrs["perm"][axis] for axis in node.attrs["perm"])
            editor.rewrite(node, "Transpose", [first.inputs[0]], {"perm": perm})
            changes.append(f"{first.name} into {node.name}")
    return changes


def _sunk(editor: GraphEditor) -> list[str]:
    """Moves a unary operator between two transpositions in front of both, and composes the two."""
    changes = []
    for last in editor.nodes("Transpose"):
        unary = editor.sole_producer(last.inputs[0], *UNARY)
        first = editor.sole_producer(unary.inputs[0], "Transpose") if unary is not None else None
        if unary is None or first is None:
            continue
        perm = tuple(first.attrs["perm"][axis] for axis in last.attrs["perm"])
        moved = editor.insert_before(last, unary.op, unary.name, [first.inputs[0]], unary.attrs)
        editor.rewrite(last, "Transpose", [moved], {"perm": perm})
        editor.drop(unary)
        editor.drop(first)
        changes.append(f"{first.name} into {last.name}")
    return changes


def _trivial(editor: GraphEditor) -> list[str]:
    changes = []
    for node in editor.nodes("Transpose"):
        shape = editor.graph.shape(node.inputs[0])
        long_axes = [axis for axis in node.attrs["perm"] if shape[axis] != 1]
        if long_axes == sorted(long_axes) and list(node.attrs["perm"]) != sorted(node.attrs["perm"]):
            editor.rewrite(node, "Reshape", node.inputs, {"shape": editor.graph.shape(node.output)})
            changes.append(f"{node.name} into a Reshape")
    return changes
