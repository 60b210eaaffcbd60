"""Reads a tensor as strides in the tensor that it was sliced, split and transposed from, so that no copy is needed."""

import dataclasses

import numpy as np

from runtime.graph import Array, Node
from runtime.passes.editor import GraphEditor
from runtime.semantics.generic import broadcast_view, row_major_strides

Shape = tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class SourceView:
    """factor * source, whose element i is source[offset + i . strides], the source counting as dense and row-major."""

    source: str
    shape: Shape
    strides: Shape
    offset: int
    factor: float


def view_of(editor: GraphEditor, tensor: str, *ops: str) -> SourceView:
    """Follows a tensor back through Transpose, Slice, Expand, Reshapes that split axes, and products with a constant.

    `ops` says which of "Transpose", "Slice", "Reshape", "Strided" (for Expand), "Mul" and "Div" are followed.
    """
    shape, factor = editor.graph.shape(tensor), 1.0
    # Element i of the view is the source's element at the index start + i @ steps.
    steps, start = np.eye(len(shape), dtype=np.int64), np.zeros(len(shape), np.int64)
    while (node := editor.producer(tensor, *ops)) is not None and "activation" not in node.attrs:
        behind = _scaled(editor, node) if node.op in ("Mul", "Div") else _moved(editor, node, steps, start)
        if behind is None:
            break
        tensor, scale, change = behind
        factor *= scale
        steps, start = change if change is not None else (steps, start)
    strides = np.asarray(row_major_strides(editor.graph.shape(tensor)), np.int64)
    own = tuple(0 if size == 1 else int(step) for size, step in zip(shape, steps @ strides, strict=True))
    return SourceView(tensor, shape, own, int(start @ strides), factor)


_Change = tuple[Array, Array]
_Behind = tuple[str, float, _Change | None]


def _scaled(editor: GraphEditor, node: Node) -> _Behind | None:
    """The tensor that a product scales, and the factor."""
    for index, name in enumerate(node.inputs):
        value = editor.scalar(node.inputs[1 - index])
        same_shape = editor.graph.shape(name) == editor.graph.shape(node.output)
        if value and same_shape and (node.op == "Mul" or index == 0):
            return name, value if node.op == "Mul" else 1 / value, None
    return None


def _moved(editor: GraphEditor, node: Node, steps: Array, start: Array) -> _Behind | None:
    """The input of a node that moves elements, with steps and start along its axes."""
    source = node.inputs[0]
    if node.op == "Transpose":
        order = np.argsort(node.attrs["perm"])
        return source, 1.0, (steps[:, order], start[order])
    if node.op == "Slice":
        scale, first = np.ones(len(start), np.int64), np.zeros(len(start), np.int64)
        axes = list(node.attrs["axes"])
        scale[axes], first[axes] = node.attrs["steps"], node.attrs["starts"]
        return None if scale.min() < 1 else (source, 1.0, (steps * scale, start * scale + first))
    shapes = editor.graph.shape(source), editor.graph.shape(node.output)
    matrix = _joined_axes(*shapes) if node.op == "Reshape" else _repeated_axes(node, *shapes)
    return None if matrix is None else (source, 1.0, (steps @ matrix, start @ matrix))


def _joined_axes(wide: Shape, split: Shape) -> Array | None:
    """The matrix that takes an index of the split shape to one of the wide shape; None where axes were joined."""
    matrix, axis = np.zeros((len(split), len(wide)), np.int64), 0
    for column, size in enumerate(wide):
        first, product = axis, 1
        while product < size and axis < len(split):
            product *= split[axis]
            axis += 1
        if product != size:
            return None
        for row in range(first, axis):
            matrix[row, column] = int(np.prod(split[row + 1 : axis], dtype=np.int64))
    return matrix


def _repeated_axes(node: Node, narrow: Shape, wide: Shape) -> Array | None:
    """The matrix that takes an index to one of the shape that was expanded; None of any other Strided."""
    strides = broadcast_view(narrow, wide) if len(narrow) <= len(wide) else ()
    if node.attrs["offset"] or strides != tuple(node.attrs["strides"]):
        return None
    return np.eye(len(wide), dtype=np.int64)[:, len(wide) - len(narrow) :] * (np.asarray(narrow) > 1)
