"""Constant folding: an operator whose inputs are all constant becomes a constant."""

from __future__ import annotations

from runtime.graph import Graph
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
