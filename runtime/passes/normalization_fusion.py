"""Normalisation fusion: (x - mean) / sqrt(variance + epsilon) becomes LayerNormalization or GroupNormalization."""

from __future__ import annotations

from typing import Any

from runtime.graph import Node
from runtime.passes.editor import GraphEditor, pass_over
from runtime.passes.moments import Deviation, deviation, inverse_deviation, less_mean, mean_of, plain

Form = tuple[str, dict[str, Any]]


@pass_over("Div", "Mul", "Add")
def fuse_normalizations(editor: GraphEditor, node: Node) -> str:
    """Fuses the quotient alone; its scale and shift are folded by another pass. What is read elsewhere stays."""
    fuse = _fuse_sum if node.op == "Add" else _fuse
    return node.name if "activation" not in node.attrs and fuse(editor, node) else ""


def _fuse(editor: GraphEditor, node: Node) -> bool:
    """Rewrites a quotient by the deviation, or a product with its inverse."""
    if node.op == "Div":
        candidates = [(node.inputs[0], deviation(editor, node.inputs[1]))]
    else:
        pairs = (node.inputs, node.inputs[::-1])
        candidates = [(value, inverse_deviation(editor, inverse)) for value, inverse in pairs]
    for value, found in candidates:
        form = _form(editor, found) if found is not None and _is_numerator(editor, value, found) else None
        if found is not None and form is not None:
            editor.rewrite(node, form[0], [found.source], form[1])
            return True
    return False


def _is_numerator(editor: GraphEditor, value: str, found: Deviation) -> bool:
    """Whether a value is what the deviation was computed of."""
    if not found.centered:
        return value == found.source
    return less_mean(editor, value) == (found.source, found.axes)


def _form(editor: GraphEditor, found: Deviation) -> Form | None:
    """The operator for the axes: the last ones, the channels of an image, or all that are spatial."""
    shape, axes = editor.graph.shape(found.source), found.axes
    rank = len(shape)
    if rank >= 4 and axes == tuple(range(2, rank)) and found.centered:
        return "GroupNormalization", {"groups": shape[1], "epsilon": found.epsilon}
    is_last = axes == tuple(range(rank - len(axes), rank)) and len(axes) > 0
    if is_last or (axes == (1,) and rank == 4):
        return "LayerNormalization", {"axes": axes, "epsilon": found.epsilon, "centered": found.centered}
    return None


def _fuse_sum(editor: GraphEditor, node: Node) -> bool:
    """Rewrites x * inverse + (shift - mean * inverse), where inverse may hold the scale, as TensorFlow has it."""
    for product, rest in (node.inputs, node.inputs[::-1]):
        scaled, shift = plain(editor, product, "Mul"), _shift_less_mean(editor, rest)
        if scaled is None or shift is None:
            continue
        offset, mean, factor = shift
        if factor not in scaled.inputs or scaled.inputs[0] == scaled.inputs[1]:
            continue
        x = scaled.inputs[1 - scaled.inputs.index(factor)]
        scale, found = _scaled_inverse(editor, factor)
        form = _form(editor, found) if found is not None else None
        if found is None or form is None or not found.centered or found.source != x:
            continue
        if mean_of(editor, mean) == (x, found.axes):
            _write_sum(editor, node, x, form, scale, offset)
            return True
    return False


def _write_sum(editor: GraphEditor, node: Node, x: str, form: Form, scale: str, offset: str) -> None:
    value = editor.insert_before(node, form[0], f"{node.name}/normalised", [x], form[1])
    if scale:
        value = editor.insert_before(node, "Mul", f"{node.name}/scaled", [value, scale], {})
    editor.rewrite(node, "Add", [value, offset], {})


def _shift_less_mean(editor: GraphEditor, tensor: str) -> tuple[str, str, str] | None:
    """Returns shift, mean and factor where the tensor is shift - mean * factor, or shift + (-mean) * factor."""
    node = plain(editor, tensor, "Sub", "Add")
    if node is None:
        return None
    orders = (node.inputs,) if node.op == "Sub" else (node.inputs, node.inputs[::-1])
    for shift, product in orders:
        inner = plain(editor, product, "Mul")
        for mean, factor in (inner.inputs, inner.inputs[::-1]) if inner is not None else ():
            value = mean if node.op == "Sub" else _negated(editor, mean)
            if value and mean_of(editor, value) is not None:
                return shift, value, factor
    return None


def _negated(editor: GraphEditor, tensor: str) -> str:
    node = plain(editor, tensor, "Neg")
    return node.inputs[0] if node is not None else ""


def _scaled_inverse(editor: GraphEditor, tensor: str) -> tuple[str, Deviation | None]:
    """Reads inverse deviation, or its product with a scale; the scale's name is empty where there is none."""
    found, node = inverse_deviation(editor, tensor), plain(editor, tensor, "Mul")
    if found is not None or node is None:
        return "", found
    pairs = [(other, inverse_deviation(editor, name)) for name, other in (node.inputs, node.inputs[::-1])]
    return next((pair for pair in pairs if pair[1] is not None), ("", None))
