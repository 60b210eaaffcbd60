"""Squeeze movement: what follows a convolution and a squeeze of its output works on that output, and can be fused.

Convolutions over one axis are ones over two with a Reshape on each side, as the importer writes them and exporters do.
"""

import numpy as np

from runtime.families.elementwise.definition import BINARY, UNARY
from runtime.graph import Graph, Node
from runtime.passes.editor import GraphEditor, pass_over

Shape = tuple[int, ...]


@pass_over(*UNARY, *BINARY, "BatchNormalization")
def move_squeezes(editor: GraphEditor, node: Node) -> str:
    """Moves a Reshape that drops axes of size 1 behind the element-wise operator or batch norm that alone reads it."""
    for name in node.inputs:
        squeeze = editor.sole_producer(name, "Reshape")
        if squeeze is not None and _is_of_convolution(editor, squeeze) and _moved(editor, node, squeeze):
            return f"{squeeze.name} behind {node.name}"
    return ""


def _is_of_convolution(editor: GraphEditor, squeeze: Node) -> bool:
    """Whether a convolution writes what a Reshape reads, with a Transpose between where the network is NHWC."""
    transpose = editor.producer(squeeze.inputs[0], "Transpose")
    source = squeeze.inputs[0] if transpose is None else transpose.inputs[0]
    return editor.producer(source, "Conv") is not None


def _moved(editor: GraphEditor, node: Node, squeeze: Node) -> bool:
    """Puts an operator before the squeeze, where all of its operands can be brought into the wide shape."""
    graph, wide, narrow = editor.graph, editor.graph.shape(squeeze.inputs[0]), squeeze.attrs["shape"]
    kept = _kept_axes(wide, narrow)
    fits = kept is not None and graph.shape(node.output) == narrow and graph.tensors[node.output].dtype == np.float32
    if kept is None or not fits or not all(_fits(graph, node, name, wide, narrow) for name in node.inputs):
        return False
    inputs = [
        squeeze.inputs[0] if name == squeeze.output else _widened(editor, node, name, wide, kept)
        for name in node.inputs
    ]
    output = editor.insert_before(node, node.op, node.name, inputs, node.attrs)
    node.name = f"{node.name}/reshape"
    editor.rewrite(node, "Reshape", [output], {"shape": narrow})
    editor.drop(squeeze)
    return True


def _kept_axes(wide: Shape, narrow: Shape) -> list[int] | None:
    """The axes that a Reshape keeps while it drops others of size 1; None where it does anything else."""
    kept: list[int] = []
    for axis, size in enumerate(wide):
        if len(kept) < len(narrow) and size == narrow[len(kept)]:
            kept.append(axis)
        elif size != 1:
            return None
    return kept if len(kept) == len(narrow) < len(wide) else None


def _fits(graph: Graph, node: Node, name: str, wide: Shape, narrow: Shape) -> bool:
    """Whether an operand can be widened: a constant, or a tensor of the narrow shape."""
    if node.op == "BatchNormalization":
        return wide[:2] == narrow[:2]
    return graph.is_constant(name) or graph.shape(name) == narrow


def _widened(editor: GraphEditor, node: Node, name: str, wide: Shape, kept: list[int]) -> str:
    """An operand with axes of size 1 where the squeeze drops them."""
    if not editor.graph.is_constant(name):
        return editor.insert_before(node, "Reshape", node.name + "/operand", [name], {"shape": wide})
    value = editor.graph.constants[name]
    if node.op == "BatchNormalization" or value.size == 1:
        return name
    sizes = dict(zip(kept[len(kept) - value.ndim :], value.shape, strict=True))
    shape = [sizes.get(axis, 1) for axis in range(len(wide))]
    return editor.add_constant(f"{name}/widened", value.reshape(shape))
