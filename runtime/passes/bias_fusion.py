"""Bias fusion: a constant added to each channel becomes the bias of the operator before."""

from __future__ import annotations

from runtime.graph import Graph
from runtime.passes.affine import fold_affine
from runtime.passes.editor import GraphEditor


def fuse_biases(graph: Graph) -> list[str]:
    """Folds Add and Sub of a constant by channel into the operator with weights before it."""
    editor = GraphEditor(graph)
    fused = [fold_affine(editor, node) for node in editor.nodes("Add", "Sub")]
    editor.finish()
    return [change for change in fused if change]
