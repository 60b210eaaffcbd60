"""Folds nodes that compute y = x * scale[c] + shift[c] in each channel into the node before them."""

import dataclasses

import numpy as np

from runtime.graph import Array, Graph, Node
from runtime.passes.editor import GraphEditor, pass_over

CONVOLUTIONS = ("Conv", "ConvTranspose")


@dataclasses.dataclass(frozen=True)
class Affine:
    """y = tensor * scale[c] + shift[c], in float64, one value for each channel."""

    tensor: str
    scale: Array
    shift: Array


def channel_affine(graph: Graph, node: Node, channel: int = 1) -> Affine | None:
    """Returns the scale and shift that a node applies along the channels' axis; None where it does something else."""
    if node.op == "BatchNormalization" and channel != 1:
        return None
    if node.op == "BatchNormalization":
        scale, shift = (graph.constants[name].astype(np.float64) for name in node.inputs[1:])
        return Affine(node.inputs[0], scale, shift)
    if node.op not in {"Add", "Sub", "Mul", "Div"}:
        return None
    for index in (0, 1):
        value = _per_channel(graph, node.inputs[index], node.output, channel)
        if value is not None:
            return _arithmetic(node.op, node.inputs[1 - index], value, constant_first=index == 0)
    return None


def _per_channel(graph: Graph, tensor: str, output: str, channel: int) -> Array | None:
    """Returns a constant as one value for each channel of `output`; None where it varies along another axis."""
    value, shape = graph.constants.get(tensor), graph.shape(output)
    if value is None or value.ndim > len(shape) or len(shape) < 2:
        return None
    aligned = (1,) * (len(shape) - value.ndim) + value.shape
    if any(size != 1 for axis, size in enumerate(aligned) if axis != channel):
        return None
    return np.broadcast_to(value.reshape(-1).astype(np.float64), (shape[channel],))


def _arithmetic(op: str, tensor: str, value: Array, constant_first: bool) -> Affine | None:
    one, zero = np.ones_like(value), np.zeros_like(value)
    if op == "Add":
        return Affine(tensor, one, value)
    if op == "Mul":
        return Affine(tensor, value, zero)
    if op == "Sub":
        return Affine(tensor, -one, value) if constant_first else Affine(tensor, one, -value)
    return None if constant_first or not value.all() else Affine(tensor, 1 / value, zero)


def fold_affine(editor: GraphEditor, node: Node) -> str:
    """Folds a node into the operator with weights before it; returns what was done, empty where nothing was."""
    affine = channel_affine(editor.graph, node, _channel_axis(editor, node))
    if affine is None or editor.graph.shape(affine.tensor) != editor.graph.shape(node.output):
        return ""
    target = editor.sole_producer(affine.tensor, *CONVOLUTIONS, "FullyConnected", "BatchNormalization")
    if target is None or "activation" in target.attrs or len(target.inputs) > 3:
        return ""
    change = f"{node.name} into {target.name}"
    inputs = _scaled_inputs(editor, target, affine)
    editor.absorb(node, target)
    editor.set_inputs(node, inputs)
    return change


def _channel_axis(editor: GraphEditor, node: Node) -> int:
    """The axis of the channels of what the node reads: the last one of a FullyConnected, else the second."""
    layers = [name for name in node.inputs if editor.producer(name, "FullyConnected") is not None]
    return len(editor.graph.shape(layers[0])) - 1 if layers else 1


def _scaled_inputs(editor: GraphEditor, target: Node, affine: Affine) -> list[str]:
    """Returns the target's inputs with new weights (or scale) and bias (or shift) that include the affine."""
    weights = editor.graph.constants[target.inputs[1]]
    names = [target.inputs[0], target.inputs[1], target.input(2)]
    bias = editor.graph.constants[names[2]] if names[2] else np.zeros(affine.scale.shape)
    if (affine.scale != 1).any():
        names[1] = editor.add_constant(f"{target.name}/folded_weights", _scaled(weights, affine.scale, target))
    shift = bias * affine.scale + affine.shift
    if names[2] or shift.any():
        names[2] = editor.add_constant(f"{target.name}/folded_bias", shift)
    return names


def _scaled(weights: Array, scale: Array, target: Node) -> Array:
    """Weights times the scale of their output: the first axis, but of a transposed convolution the second."""
    split, factor = weights, scale.reshape(-1, *(1,) * (weights.ndim - 1))
    if target.op == "ConvTranspose":
        group = target.attrs["group"]
        inputs, outputs, *kernel = weights.shape
        split = weights.reshape(group, inputs // group, outputs, *kernel)
        factor = scale.reshape(group, 1, outputs, 1, 1)
    scaled = np.empty(split.shape, np.float32)
    np.multiply(split, factor, out=scaled, casting="same_kind")  # in the scale's type, some elements at a time
    return scaled.reshape(weights.shape)


fold_batch_norms = pass_over("BatchNormalization", "Mul", "Div")(fold_affine)
fuse_biases = pass_over("Add", "Sub")(fold_affine)
