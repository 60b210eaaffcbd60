"""LayerNormalization, RMSNormalization, GroupNormalization, InstanceNormalization."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from runtime.errors import ModelError
from runtime.importers.builder import GraphBuilder
from runtime.importers.emitting import Emitter
from runtime.importers.onnx_node import OnnxNode, normalized_axis
from runtime.importers.registry import Handler

_FLOAT32 = 1  # stash_type: in which type mean and variance are computed
_Shape = tuple[int, ...]


def _normalise(
    node: OnnxNode,
    builder: GraphBuilder,
    op: str,
    attributes: Mapping[str, Any],
    factors: Sequence[str],
    shape: _Shape,
    broadcast: _Shape,
) -> None:
    """Adds the operator with its scale and shift, which become Mul and Add where they are known at run time only.

    `shape` is that of scale and shift in the graph, `broadcast` the one in which they broadcast to the input.
    """
    emit, x = Emitter(node, builder), node.input(0)
    if all(not name or builder.constant(name) is not None for name in factors):
        constants = [_fitted(node, builder, name, shape) if name else "" for name in factors]
        builder.emit(node, op, [x, *constants], attributes, node.output)
        return
    value = builder.emit(node, op, [x], attributes)
    steps = [(kind, name) for kind, name in zip(("Mul", "Add"), factors, strict=False) if name]
    for index, (kind, name) in enumerate(steps):
        last = index == len(steps) - 1
        factor = emit.reshape(name, broadcast) if builder.shape(name) == shape != broadcast else name
        value = emit.op(kind, value, factor, output=node.output if last else None)


def _fitted(node: OnnxNode, builder: GraphBuilder, name: str, shape: _Shape) -> str:
    """A constant scale or shift, repeated to the shape that the graph asks."""
    value = builder.constant(name)
    if value is None or value.shape == shape:
        return name
    try:
        return builder.derived(f"{name}/broadcast", np.broadcast_to(value, shape))
    except ValueError:
        raise ModelError(f"{node}: '{name}' of shape {value.shape} does not fit {shape}") from None


def _layer_normalization(node: OnnxNode, builder: GraphBuilder) -> None:
    """Imports LayerNormalization with its two further outputs, mean and inverse deviation, where they are named."""
    shape, axes, attributes = _rows(node, builder)
    factors = [node.input(1), node.optional(2)]
    _normalise(node, builder, "LayerNormalization", {**attributes, "centered": True}, factors, shape, shape)
    mean, inverse = (*node.outputs, "", "")[1:3]
    emit, x = Emitter(node, builder), node.input(0)
    if mean:
        emit.op("ReduceMean", x, axes=axes, keepdims=True, output=mean)
    if inverse:
        centred = emit.op("Sub", x, emit.op("ReduceMean", x, axes=axes, keepdims=True))
        variance = emit.op("ReduceMean", emit.op("Mul", centred, centred), axes=axes, keepdims=True)
        total = emit.op("Add", variance, emit.constant(attributes["epsilon"]))
        emit.op("Reciprocal", emit.op("Sqrt", total), output=inverse)


def _rms_normalization(node: OnnxNode, builder: GraphBuilder) -> None:
    shape, _, attributes = _rows(node, builder)
    factors = [node.input(1)]
    _normalise(node, builder, "LayerNormalization", {**attributes, "centered": False}, factors, shape, shape)


def _rows(node: OnnxNode, builder: GraphBuilder) -> tuple[_Shape, _Shape, dict[str, Any]]:
    """Shape of what is normalised together, its axes, and the attributes of the graph's operator."""
    shape = builder.shape(node.input(0))
    first = normalized_axis(node, node.integer("axis", -1), len(shape))
    node.only("stash_type", _FLOAT32)
    axes = tuple(range(first, len(shape)))
    return shape[first:], axes, {"axes": axes, "epsilon": node.real("epsilon", 1e-5)}


def _group_normalization(node: OnnxNode, builder: GraphBuilder) -> None:
    """Imports GroupNormalization; before opset 21 scale and shift are those of groups."""
    shape, groups = builder.shape(node.input(0)), node.integer("num_groups", 0)
    node.only("stash_type", _FLOAT32)
    if len(shape) < 2 or groups < 1 or shape[1] % groups:
        raise ModelError(f"{node}: {groups} groups of an input of shape {shape}")
    factors = [node.input(1), node.input(2)]
    if node.opset < 21 and groups != shape[1]:
        factors = [_each_channel(node, builder, name, groups, shape[1] // groups) for name in factors]
    _normalise_groups(node, builder, groups, factors)


def _each_channel(node: OnnxNode, builder: GraphBuilder, name: str, groups: int, channels: int) -> str:
    emit = Emitter(node, builder)
    return emit.reshape(emit.expand(emit.reshape(name, (groups, 1)), (groups, channels)), (groups * channels,))


def _instance_normalization(node: OnnxNode, builder: GraphBuilder) -> None:
    shape = builder.shape(node.input(0))
    if len(shape) < 3 or math.prod(shape) == 0:
        raise ModelError(f"{node}: an input of shape {shape}; three axes and more are needed")
    _normalise_groups(node, builder, shape[1], [node.input(1), node.input(2)])


def _normalise_groups(node: OnnxNode, builder: GraphBuilder, groups: int, factors: Sequence[str]) -> None:
    shape = builder.shape(node.input(0))
    attributes = {"groups": groups, "epsilon": node.real("epsilon", 1e-5)}
    broadcast = (shape[1], *(1,) * (len(shape) - 2))
    _normalise(node, builder, "GroupNormalization", attributes, factors, shape[1:2], broadcast)


HANDLERS: Mapping[str, Handler] = {
    "LayerNormalization": _layer_normalization,
    "RMSNormalization": _rms_normalization,
    "GroupNormalization": _group_normalization,
    "InstanceNormalization": _instance_normalization,
}
