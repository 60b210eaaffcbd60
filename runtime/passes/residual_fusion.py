"""Residual fusion: the other operand of an addition after a convolution becomes its fourth input."""

from __future__ import annotations

from runtime.graph import Graph, Node
from runtime.passes.affine import CONVOLUTIONS
from runtime.passes.editor import GraphEditor


def fuse_residuals(graph: Graph) -> list[str]:
    """Fuses Add(Conv or ConvTranspose, tensor of the same shape) into the convolution that nothing else reads.

    Where both operands are convolutions, the second takes the first as its residual.
    """
    editor = GraphEditor(graph)
    changes = []
    for node in editor.nodes("Add"):
        for conv_output, other in (tuple(reversed(node.inputs)), tuple(node.inputs)):
            conv = _open_convolution(editor, conv_output)
            if conv is None or graph.is_constant(other) or graph.shape(other) != graph.shape(conv_output):
                continue
            changes.append(f"{node.name} into {conv.name}")
            editor.absorb(node, conv)
            editor.set_inputs(node, [*node.inputs[:2], node.input(2), other])
            break
    editor.finish()
    return changes


def _open_convolution(editor: GraphEditor, tensor: str) -> Node | None:
    """The convolution that writes a private tensor and has neither a residual nor an activation yet."""
    conv = editor.sole_producer(tensor, *CONVOLUTIONS)
    return None if conv is None or conv.input(3) or "activation" in conv.attrs else conv
