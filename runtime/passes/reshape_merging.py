"""Reshape merging: of Reshapes in a row only the last shape counts."""

from __future__ import annotations

from runtime.graph import Graph
from runtime.passes.editor import GraphEditor


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
