"""What an operator takes over from its neighbours: the Pad before it, what is added to it, its activation."""

import dataclasses
import math

import numpy as np

from runtime.graph import Graph, MovedTensor, Node, unused_name
from runtime.operators.activations import ACTIVATION_ATTRIBUTES, ACTIVATION_OF, ACTIVATION_PARAMETERS
from runtime.operators.table import OPERATORS
from runtime.oracle.fixed_point import fixed_point_of
from runtime.passes.affine import CONVOLUTIONS
from runtime.passes.editor import GraphEditor, pass_over
from runtime.semantics.unary import snake


@pass_over("Conv", "AveragePool", "MaxPool")
def fuse_pads(editor: GraphEditor, node: Node) -> str:
    """Fuses Pad into Conv, AveragePool and MaxPool where its value is the one that they pad with."""
    pad = editor.producer(node.inputs[0], "Pad")
    if pad is None or not _fits(pad, node, _least(editor.producer(pad.inputs[0]))):
        return ""
    node.attrs["pads"] = _summed(pad, node)
    if node.op == "AveragePool":
        node.attrs["count_include_pad"] = True
    editor.set_inputs(node, [pad.inputs[0], *node.inputs[1:]])
    return f"{pad.name} into {node.name}"


def _summed(pad: Node, node: Node) -> tuple[int, ...]:
    """Adds the padding of both nodes: (top, left, bottom, right)."""
    extra = (*pad.attrs["pads"][2:4], *pad.attrs["pads"][6:8])
    return tuple(own + more for own, more in zip(node.attrs["pads"], extra, strict=True))


def _least(node: Node | None) -> float:
    """What results of a node are never less than, as far as its activation tells."""
    kind = "" if node is None else node.attrs.get("activation", snake(node.op))
    if node is None or kind not in ("relu", "clip", "fake_quantize"):
        return -math.inf
    return 0.0 if kind == "relu" else float(node.attrs["alpha"])


def _fits(pad: Node, node: Node, least: float) -> bool:
    """`least`: what is padded is never less than that."""
    pads = pad.attrs["pads"]
    if pad.attrs["mode"] != "constant" or any(pads[:2]) or any(pads[4:6]):
        return False
    if node.op == "Conv":
        return bool(pad.attrs["value"] == 0)
    if any(side >= size for side, size in zip(_summed(pad, node), node.attrs["kernel"] * 2, strict=True)):
        return False  # a window of padding alone has no value in a pool
    if node.op == "MaxPool":
        return bool(pad.attrs["value"] <= max(least, np.finfo(np.float32).min))
    return bool(pad.attrs["value"] == 0 and (node.attrs["count_include_pad"] or not any(node.attrs["pads"])))


_PLAIN = 3  # inputs of a product without either


@pass_over("Add", "Mul")
def fuse_residuals(editor: GraphEditor, node: Node) -> str:
    """Fuses Add(product, tensor of the same shape) into the product, which nothing else reads, and Mul into a
    FullyConnected: so a gate, as SwiGLU has one, is a factor.

    Where both operands are products, the second takes the first.
    """
    graph = editor.graph
    producers = ("FullyConnected",) if node.op == "Mul" else (*CONVOLUTIONS, "FullyConnected")
    for product, other in (tuple(reversed(node.inputs)), tuple(node.inputs)):
        producer = _open_product(editor, product, producers)
        if producer is None or graph.is_constant(other) or graph.shape(other) != graph.shape(product):
            continue
        change = f"{node.name} into {producer.name}"
        absent = [""] * (node.op == "Mul")
        editor.absorb(node, producer)
        editor.set_inputs(node, [*node.inputs[:2], node.input(2), *absent, other])
        return change
    return ""


def _open_product(editor: GraphEditor, tensor: str, producers: tuple[str, ...]) -> Node | None:
    """The operator that writes a private tensor, and has neither a residual, nor a factor, nor an activation yet."""
    product = editor.sole_producer(tensor, *producers)
    return None if product is None or len(product.inputs) > _PLAIN or "activation" in product.attrs else product


_FUSIBLE = tuple(op for op, operator in OPERATORS.items() if operator.fusible)


@pass_over(*ACTIVATION_OF)
def fuse_activations(editor: GraphEditor, node: Node) -> str:
    """Fuses activations into operators that take one, where nothing else reads their output."""
    producer = editor.sole_producer(node.inputs[0], *_FUSIBLE)
    if producer is None or "activation" in producer.attrs or fixed_point_of(editor.graph, node):
        return ""  # what is rounded by fixed point reads the steps between both
    change = f"{node.name} into {producer.name}"
    node.attrs["activation"] = ACTIVATION_OF[node.op]
    editor.absorb(node, producer)
    return change


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
