"""Recognises mean, variance and inverse deviation, as PyTorch and TensorFlow write them out."""

from __future__ import annotations

import dataclasses

from runtime.graph import Node
from runtime.passes.editor import GraphEditor

Axes = tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class Deviation:
    """sqrt(variance of `source` over `axes` + epsilon); not centred, the mean counts as 0."""

    source: str
    axes: Axes
    epsilon: float
    centered: bool


def plain(editor: GraphEditor, tensor: str, *ops: str) -> Node | None:
    """The node that writes a tensor, if it is one of these operators without an activation."""
    node = editor.producer(tensor, *ops)
    return None if node is None or "activation" in node.attrs else node


def less_mean(editor: GraphEditor, tensor: str) -> tuple[str, Axes] | None:
    """Returns x and the axes where the tensor is x minus its mean over these; else None."""
    node = plain(editor, tensor, "Sub")
    mean = None if node is None else mean_of(editor, node.inputs[1])
    return mean if node is not None and mean is not None and mean[0] == node.inputs[0] else None


def mean_of(editor: GraphEditor, tensor: str) -> tuple[str, Axes] | None:
    """Returns x and the axes, ascending, where the tensor is the mean of x over these, which are kept; else None."""
    node = plain(editor, tensor, "ReduceMean")
    return (node.inputs[0], tuple(sorted(node.attrs["axes"]))) if node is not None and node.attrs["keepdims"] else None


def deviation(editor: GraphEditor, tensor: str) -> Deviation | None:
    """Reads sqrt(variance + epsilon), or its square root as a power; None where the tensor is something else."""
    node = plain(editor, tensor, "Sqrt", "Pow")
    if node is None or (node.op == "Pow" and editor.scalar(node.inputs[1]) != 0.5):
        return None
    return _of_total(editor, node.inputs[0])


def inverse_deviation(editor: GraphEditor, tensor: str) -> Deviation | None:
    """Reads 1 / sqrt(variance + epsilon) in any of its forms; None where the tensor is something else."""
    node = plain(editor, tensor, "Reciprocal", "Div", "Pow")
    if node is None:
        return None
    if node.op == "Reciprocal":
        return deviation(editor, node.inputs[0])
    if node.op == "Div":
        return deviation(editor, node.inputs[1]) if editor.scalar(node.inputs[0]) == 1 else None
    return _of_total(editor, node.inputs[0]) if editor.scalar(node.inputs[1]) == -0.5 else None


def _of_total(editor: GraphEditor, tensor: str) -> Deviation | None:
    """Reads variance + epsilon."""
    node = plain(editor, tensor, "Add")
    if node is None:
        return None
    for variance, constant in (node.inputs, node.inputs[::-1]):
        epsilon, mean = editor.scalar(constant), mean_of(editor, variance)
        squared = _squared(editor, mean[0]) if mean is not None else ""
        if epsilon is not None and mean is not None and squared:
            return _of_squared(editor, squared, mean[1], epsilon)
    return None


def _of_squared(editor: GraphEditor, tensor: str, axes: Axes, epsilon: float) -> Deviation:
    around = less_mean(editor, tensor)
    if around is not None and around[1] == axes:
        return Deviation(around[0], axes, epsilon, centered=True)
    return Deviation(tensor, axes, epsilon, centered=False)


def _squared(editor: GraphEditor, tensor: str) -> str:
    """Returns v where the tensor is v * v, in v's own axes; the empty name for anything else."""
    node = plain(editor, tensor, "Mul", "Pow")
    if node is None:
        return ""
    base, other = node.inputs
    is_square = base == other if node.op == "Mul" else editor.scalar(other) == 2
    has_its_axes = editor.graph.shape(base) == editor.graph.shape(tensor)  # an exponent of more axes gives them away
    return base if is_square and has_its_axes else ""
