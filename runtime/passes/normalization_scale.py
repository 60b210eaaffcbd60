"""Scale of a normalisation: constants that multiply or are added after it become its scale and shift."""

from __future__ import annotations

import math

import numpy as np

from runtime.graph import Array, Graph, Node
from runtime.passes.editor import GraphEditor

_OPERATORS = ("LayerNormalization", "GroupNormalization")


def fold_normalization_scales(graph: Graph) -> list[str]:
    """Folds Mul, Div, Add and Sub of a constant, and makes groups of what is normalised between two Reshapes."""
    editor = GraphEditor(graph)
    changes = [_fold(editor, node) for node in editor.nodes("Mul", "Div", "Add", "Sub")]
    changes += [_regroup(editor, node) for node in editor.nodes("Reshape")]
    editor.finish()
    return [change for change in changes if change]


def _fold(editor: GraphEditor, node: Node) -> str:
    """Returns what was done, empty where nothing was."""
    for index, name in enumerate(node.inputs):
        target = editor.sole_producer(name, *_OPERATORS)
        other = editor.graph.constants.get(node.inputs[1 - index])
        if target is None or other is None or "activation" in target.attrs:
            continue
        value = _along_axes(editor, target, other)
        if value is None or (index == 1 and node.op in ("Div", "Sub")) or (node.op == "Div" and not value.all()):
            continue
        change = f"{node.name} into {target.name}"
        scale, shift = _combined(editor, target, node.op, value)
        editor.absorb(node, target)
        _set_scale(editor, node, scale, shift)
        return change
    return ""


def _along_axes(editor: GraphEditor, target: Node, value: Array) -> Array | None:
    """A constant as a scale of the normalisation; None where it varies along other axes than scale and shift do."""
    shape = editor.graph.shape(target.output)
    axes = target.attrs["axes"] if target.op == "LayerNormalization" else (1,)
    if value.ndim > len(shape):
        return None
    aligned = value.reshape((1,) * (len(shape) - value.ndim) + value.shape)
    if any(size != 1 for axis, size in enumerate(aligned.shape) if axis not in axes):
        return None
    wide = tuple(size if axis in axes else 1 for axis, size in enumerate(shape))
    return np.broadcast_to(aligned.astype(np.float64), wide).reshape([shape[axis] for axis in axes])


def _combined(editor: GraphEditor, target: Node, op: str, value: Array) -> tuple[Array, Array]:
    """Scale and shift after the operation."""
    scale, shift = _scale_and_shift(editor, target, value.shape)
    if op in ("Mul", "Div"):
        factor = value if op == "Mul" else 1 / value
        return scale * factor, shift * factor
    return scale, shift + (value if op == "Add" else -value)


def _scale_and_shift(editor: GraphEditor, node: Node, shape: tuple[int, ...]) -> tuple[Array, Array]:
    constants = editor.graph.constants
    scale, shift = ((constants[name].astype(np.float64) if name else None) for name in (node.input(1), node.input(2)))
    return np.ones(shape) if scale is None else scale, np.zeros(shape) if shift is None else shift


def _set_scale(editor: GraphEditor, node: Node, scale: Array, shift: Array) -> None:
    """Makes a normalisation read scale and shift, of which ones and zeros are left out."""
    names = [node.inputs[0], "", ""]
    if (scale != 1).any():
        names[1] = editor.add_constant(f"{node.name}/scale", scale)
    if shift.any():
        names[2] = editor.add_constant(f"{node.name}/shift", shift)
    editor.set_inputs(node, names)


def _regroup(editor: GraphEditor, last: Node) -> str:
    """Turns [n, c, ...] -> [n, groups, ...], normalised, -> [n, c, ...] into one GroupNormalization."""
    inner = editor.sole_producer(last.inputs[0], *_OPERATORS)
    first = editor.sole_producer(inner.inputs[0], "Reshape") if inner is not None else None
    if inner is None or first is None or "activation" in inner.attrs:
        return ""
    shape, grouped = editor.graph.shape(first.inputs[0]), editor.graph.shape(inner.output)
    if editor.graph.shape(last.output) != shape or not _normalises_groups(inner, shape, grouped):
        return ""
    change = f"{first.name}, {inner.name} into {last.name}"
    repeats = shape[1] // grouped[1]
    per_group = inner.op == "GroupNormalization"
    factors = (
        [np.repeat(value, repeats) for value in _scale_and_shift(editor, inner, grouped[1:2])] if per_group else []
    )
    attributes = {"groups": grouped[1], "epsilon": inner.attrs["epsilon"]}
    editor.rewrite(last, "GroupNormalization", [first.inputs[0]], attributes)
    if factors:
        _set_scale(editor, last, factors[0], factors[1])
    editor.drop(inner)
    editor.drop(first)
    return change


def _normalises_groups(inner: Node, shape: tuple[int, ...], grouped: tuple[int, ...]) -> bool:
    """Whether each of the groups on axis 1 is normalised whole, and is a run of the channels."""
    if len(shape) < 3 or len(grouped) < 3 or grouped[0] != shape[0] or shape[1] % grouped[1]:
        return False
    if inner.op == "GroupNormalization":
        return bool(inner.attrs["groups"] == grouped[1])
    unscaled = len(inner.inputs) == 1 and inner.attrs["centered"]
    whole = math.prod(grouped[axis] for axis in inner.attrs["axes"]) == math.prod(grouped[2:])
    return bool(unscaled and whole and min(inner.attrs["axes"]) == 2)
