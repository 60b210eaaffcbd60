"""Dead code: nodes that no output depends on are removed, with their constants."""

from __future__ import annotations

from runtime.graph import Graph
from runtime.passes.editor import GraphEditor


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
