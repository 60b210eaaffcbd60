"""Identity removal: operators whose output is their input are removed (Identity, Dropout, a Pad of nothing, ...)."""

from __future__ import annotations

from runtime.graph import Graph, Node
from runtime.passes.editor import GraphEditor


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
