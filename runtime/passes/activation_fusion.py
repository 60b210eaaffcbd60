"""Activation fusion: an activation becomes an attribute of the operator that computes its input."""

from __future__ import annotations

import dataclasses

from runtime.graph import Graph, MovedTensor, Node, unused_name
from runtime.operators.activations import ACTIVATION_ATTRIBUTES, ACTIVATION_OF, ACTIVATION_PARAMETERS
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


def with_activation_apart(graph: Graph, result: str, tensor: str) -> tuple[Graph, str]:
    """A graph in which what a node activates is a tensor, and the activation the next node.

    Args:
        result: what the node writes, which has a fused activation.
        tensor: what the source calls the tensor; returned is what the graph calls it.
    """
    name, moved = unused_name(tensor, graph.tensors), dict(graph.moved)
    if result in moved or name != tensor:
        perm = tuple(range(len(graph.shape(result))))
        moved[name] = MovedTensor(tensor, moved[result].perm if result in moved else perm)
    tensors = {**graph.tensors, name: graph.tensors[result]}
    origins = graph.origins | ({name: graph.origins[result]} if result in graph.origins else {})
    nodes = []
    for node in graph.nodes:
        if node.output != result:
            nodes.append(node)
            continue
        plain = {key: value for key, value in node.attrs.items() if key not in ACTIVATION_ATTRIBUTES}
        activation = node.attrs["activation"]
        operator = next(op for op, fused in ACTIVATION_OF.items() if fused == activation)
        parameters = {key: node.attrs[key] for key in ACTIVATION_PARAMETERS[activation]}
        nodes.append(Node(node.op, node.name, node.inputs, [name], plain))
        nodes.append(Node(operator, f"{node.name}/{operator}", [name], [result], parameters))
    return dataclasses.replace(graph, nodes=nodes, tensors=tensors, moved=moved, origins=origins), name
