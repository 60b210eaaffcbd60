"""Reads trees of Mul and Div as one constant factor and the tensors that are multiplied."""

from __future__ import annotations

from runtime.graph import Node
from runtime.passes.editor import GraphEditor

Product = tuple[float, list[str]]


def factors(editor: GraphEditor, node: Node) -> Product:
    """Returns a tree of Mul and Div as one constant factor and the tensors multiplied; none where one is a divisor.

    Only products that nothing else reads are taken apart.
    """
    factor, tensors = 1.0, []
    for index, name in enumerate(node.inputs):
        value = editor.scalar(name)
        inner = editor.sole_producer(name, "Mul", "Div")
        if value:
            factor *= 1 / value if node.op == "Div" and index == 1 else value
        elif node.op == "Div" and index == 1:
            return 1.0, []
        elif inner is not None and "activation" not in inner.attrs:
            inner_factor, inner_tensors = factors(editor, inner)
            if not inner_tensors:
                return 1.0, []
            factor *= inner_factor
            tensors += inner_tensors
        else:
            tensors.append(name)
    return factor, tensors


def factors_of(editor: GraphEditor, tensor: str) -> Product:
    """Returns the factors of a tensor, which may be no product at all."""
    node = editor.producer(tensor, "Mul", "Div")
    return (1.0, [tensor]) if node is None or "activation" in node.attrs else factors(editor, node)
