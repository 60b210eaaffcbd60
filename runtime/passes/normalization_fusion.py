"""Normalisation fusion: (x - mean) / sqrt(variance + epsilon) becomes one operator; so do scales beside it."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np

from runtime.graph import Array, Graph, Node
from runtime.passes.editor import GraphEditor, pass_over

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
    """Rewrites x * inverse + (shift - mean * inverse), where inverse may hold the scale, as TensorFlow has it.

    A shift of zeros was left out before.
    """
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
    if not scale and not offset:
        editor.rewrite(node, form[0], [x], form[1])
        return
    value = editor.insert_before(node, form[0], f"{node.name}/normalised", [x], form[1])
    if scale and offset:
        value = editor.insert_before(node, "Mul", f"{node.name}/scaled", [value, scale], {})
    editor.rewrite(node, "Add" if offset else "Mul", [value, offset or scale], {})


def _shift_less_mean(editor: GraphEditor, tensor: str) -> tuple[str, str, str] | None:
    """Returns shift, mean and factor where the tensor is shift - mean * factor, or shift + (-mean) * factor.

    The shift's name is empty where the tensor is (-mean) * factor alone.
    """
    node = plain(editor, tensor, "Sub", "Add", "Mul")
    if node is None:
        return None
    both = (node.inputs, node.inputs[::-1])
    orders = {"Sub": (node.inputs,), "Add": both, "Mul": (("", tensor),)}[node.op]
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
