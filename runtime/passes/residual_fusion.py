"""Residual fusion: what is added to a product, or multiplied with it, becomes its input."""

from __future__ import annotations

from runtime.graph import Graph, Node
from runtime.passes.affine import CONVOLUTIONS
from runtime.passes.editor import GraphEditor

_PLAIN = 3  # inputs of a product without either


def fuse_residuals(graph: Graph) -> list[str]:
    """Fuses Add(product, tensor of the same shape) into the product, which nothing else reads, and Mul into a
    FullyConnected: so a gate, as SwiGLU has one, is a factor.

    Where both operands are products, the second takes the first.
    """
    editor = GraphEditor(graph)
    changes = []
    for node in editor.nodes("Add", "Mul"):
        producers = ("FullyConnected",) if node.op == "Mul" else (*CONVOLUTIONS, "FullyConnected")
        for product, other in (tuple(reversed(node.inputs)), tuple(node.inputs)):
            producer = _open_product(editor, product, producers)
            if producer is None or graph.is_constant(other) or graph.shape(other) != graph.shape(product):
                continue
            changes.append(f"{node.name} into {producer.name}")
            absent = [""] * (node.op == "Mul")
            editor.absorb(node, producer)
            editor.set_inputs(node, [*node.inputs[:2], node.input(2), *absent, other])
            break
    editor.finish()
    return changes


def _open_product(editor: GraphEditor, tensor: str, producers: tuple[str, ...]) -> Node | None:
    """The operator that writes a private tensor, and has neither a residual, nor a factor, nor an activation yet."""
    product = editor.sole_producer(tensor, *producers)
    return None if product is None or len(product.inputs) > _PLAIN or "activation" in product.attrs else product
