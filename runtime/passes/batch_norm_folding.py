"""Batch-norm folding: a scale of each channel moves into the weights of the operator before."""

from __future__ import annotations

from runtime.graph import Graph
from runtime.passes.affine import fold_affine
from runtime.passes.editor import GraphEditor


def fold_batch_norms(graph: Graph) -> list[str]:
    """Folds BatchNormalization, Mul and Div by channel into the operator with weights before it."""
    editor = GraphEditor(graph)
    folded = [fold_affine(editor, node) for node in editor.nodes("BatchNormalization", "Mul", "Div")]
    editor.finish()
    return [change for change in folded if change]
