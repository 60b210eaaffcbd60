"""Activation fusion: an activation becomes an attribute of the operator that computes its input."""

from __future__ import annotations

from runtime.graph import Graph
from runtime.operators.activations import ACTIVATION_OF
from runtime.operators.table import OPERATORS
from runtime.passes.editor import GraphEditor

_FUSIBLE = tuple(op for op, operator in OPERATORS.items() if operator.fusible)


def fuse_activations(graph: Graph) -> list[str]:
    """Fuses activations into operators that take one, where nothing else reads their output."""
    editor = GraphEditor(graph)
    changes = []
    for node in editor.nodes(*ACTIVATION_OF):
        producer = editor.sole_producer(node.inputs[0], *_FUSIBLE)
        if producer is None or "activation" in producer.attrs:
            continue
        changes.append(f"{node.name} into {producer.name}")
        node.attrs["activation"] = ACTIVATION_OF[node.op]
        editor.absorb(node, producer)
    editor.finish()
    return changes
