"""Transposed operands: a product of matrices reads its right operand where it lies, not a transposed copy."""

from __future__ import annotations

from runtime.graph import Node
from runtime.passes.editor import GraphEditor, pass_over
from runtime.passes.views import SourceView, view_of
from runtime.semantics.generic import row_major_strides

_MOST_AXES = 5  # of the product; the devices' kernel has three loops around rows and columns


@pass_over("MatMul")
def absorb_transposed_operands(editor: GraphEditor, node: Node) -> str:
    """Turns MatMul of transposed tensors into StridedProduct of what was transposed.

    The left operand is taken only while its rows stay runs of neighbours, which all kernels read fast.
    """
    shape = editor.graph.shape(node.output)
    a, b = (_operand(editor, name, is_left=index == 0) for index, name in enumerate(node.inputs))
    if len(shape) > _MOST_AXES or [a.source, b.source] == node.inputs:
        return ""
    attributes = {
        "shape": shape,
        "summed": a.shape[-1:],
        "a_strides": (*_batch(a, shape), a.strides[-2], 0, a.strides[-1]),
        "b_strides": (*_batch(b, shape), 0, b.strides[-1], b.strides[-2]),
    }
    editor.rewrite(node, "StridedProduct", [a.source, b.source], attributes)
    return node.name


def _operand(editor: GraphEditor, tensor: str, is_left: bool) -> SourceView:
    """The tensor as a view of what it was transposed from; the tensor itself where nothing was, or it is no use."""
    shape = editor.graph.shape(tensor)
    found = view_of(editor, tensor, "Transpose", "Reshape")
    plain = SourceView(tensor, shape, _dense(shape), 0, 1.0)
    is_useful = found.strides != plain.strides and (not is_left or found.strides[-1] in (0, 1))
    return found if is_useful else plain


def _dense(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(0 if size == 1 else step for size, step in zip(shape, row_major_strides(shape), strict=True))


def _batch(view: SourceView, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Strides of the stack along the axes of the output, 0 where it repeats."""
    stack = view.strides[:-2]
    return (*(0,) * (len(shape) - 2 - len(stack)), *stack)
