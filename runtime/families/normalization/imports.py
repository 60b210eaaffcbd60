"""BatchNormalization (folded to scale and shift), LRN, Softmax, Dropout."""

import math
from collections.abc import Mapping

import numpy as np

from runtime.errors import ModelError
from runtime.exporters.onnx_writing import Writer, write_same
from runtime.importers.builder import GraphBuilder
from runtime.importers.emitting import Emitter
from runtime.importers.onnx_node import OnnxNode, normalized_axis
from runtime.importers.registry import Handler


def _batch_normalization(node: OnnxNode, builder: GraphBuilder) -> None:
    node.only("spatial", 1)
    momentum = node.real("momentum", 0.9)
    mode = node.integer("training_mode", 0)
    if mode not in (0, 1):
        raise node.unsupported("training_mode", mode, "0 and 1")
    if mode:
        _training_batch_normalization(node, builder, momentum)
    elif any(builder.constant(node.input(index)) is None for index in range(1, 5)):
        _batch_normalization_at_run_time(node, builder, node.input(3), node.input(4), node.output)
    else:
        _scale_and_shift(node, builder)


def _scale_and_shift(node: OnnxNode, builder: GraphBuilder) -> None:
    """Folds four constants into the two of the graph's operator, which works on matrices and images."""
    gamma, beta, mean, variance = (
        builder.weights(node, index, what).astype(np.float64)
        for index, what in enumerate(("scale", "shift", "mean", "variance"), start=1)
    )
    if not gamma.shape == beta.shape == mean.shape == variance.shape:
        shapes = [value.shape for value in (gamma, beta, mean, variance)]
        raise ModelError(f"{node}: scale, shift, mean and variance have the shapes {shapes}; one is needed")
    divisor = variance + node.real("epsilon", 1e-5)
    if divisor.min(initial=1.0) <= 0:
        raise ModelError(f"{node}: variance '{node.input(4)}' plus epsilon is not positive")
    scale = gamma / np.sqrt(divisor)
    names = [
        builder.derived(f"{node.output}/{what}", value)
        for what, value in (("scale", scale), ("shift", beta - mean * scale))
    ]
    emit, x = Emitter(node, builder), node.input(0)
    shape = builder.shape(x)
    if len(shape) in (2, 4):
        emit.op("BatchNormalization", x, *names, output=node.output)
        return
    image = (*shape, 1) if len(shape) == 1 else (*shape[:2], math.prod(shape[2:-1]), shape[-1])
    y = emit.op("BatchNormalization", emit.reshape(x, image), *names)
    emit.reshape(y, shape, node.output)


def _batch_normalization_at_run_time(
    node: OnnxNode, builder: GraphBuilder, mean: str, variance: str, output: str
) -> None:
    emit, x = Emitter(node, builder), node.input(0)
    shape = _by_channel(builder.shape(x))
    scale, shift, mean, variance = (emit.reshape(name, shape) for name in (*node.inputs[1:3], mean, variance))
    deviation = emit.op("Sqrt", emit.op("Add", variance, emit.constant(node.real("epsilon", 1e-5))))
    centred = emit.op("Div", emit.op("Sub", x, mean), deviation)
    emit.op("Add", emit.op("Mul", centred, scale), shift, output=output)


def _by_channel(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of a value for each channel that broadcasts to a tensor; one of one axis has one channel."""
    return (shape[1], *(1,) * (len(shape) - 2)) if len(shape) > 1 else (1,)


def _training_batch_normalization(node: OnnxNode, builder: GraphBuilder, momentum: float) -> None:
    """Mean and variance are those of the batch; those of all batches so far are further outputs."""
    emit, x = Emitter(node, builder), node.input(0)
    axes = tuple(axis for axis in range(len(builder.shape(x))) if axis != 1)
    mean = emit.op("ReduceMean", x, axes=axes, keepdims=True)
    centred = emit.op("Sub", x, mean)
    variance = emit.op("ReduceMean", emit.op("Mul", centred, centred), axes=axes, keepdims=True)
    _batch_normalization_at_run_time(node, builder, mean, variance, node.output)
    for own, before, output in zip((mean, variance), node.inputs[3:5], node.outputs[1:], strict=False):
        if output:
            parts = [
                emit.op("Mul", part, emit.constant(factor))
                for part, factor in ((before, momentum), (emit.reshape(own, builder.shape(before)), 1 - momentum))
            ]
            emit.op("Add", *parts, output=output)


def _lp_normalization(node: OnnxNode, builder: GraphBuilder) -> None:
    """A vector of zeros stays one."""
    emit, x, order = Emitter(node, builder), node.input(0), node.integer("p", 2)
    axis = normalized_axis(node, node.integer("axis", -1), len(builder.shape(x)))
    sizes = emit.op("Abs", x) if order == 1 else emit.op("Mul", x, x)
    norm = emit.op("ReduceSum", sizes, axes=(axis,), keepdims=True)
    norm = norm if order == 1 else emit.op("Sqrt", norm)
    zero = emit.element("equal", norm, emit.constant(0), dtype="bool")
    emit.op("Div", x, emit.element("where", zero, emit.constant(1), norm), output=node.output)


def _lrn(node: OnnxNode, builder: GraphBuilder) -> None:
    size = node.integer("size", 0)
    if size < 1 or size % 2 == 0:
        raise node.unsupported("size", size, "an odd number of channels")
    attributes = {
        "alpha": node.real("alpha", 1e-4),
        "beta": node.real("beta", 0.75),
        "bias": node.real("bias", 1.0),
        "size": size,
    }
    builder.emit(node, "LRN", [node.input(0)], attributes, node.output)


def _softmax(node: OnnxNode, builder: GraphBuilder) -> None:
    """Imports Softmax and LogSoftmax. Before opset 13 both work on all axes from `axis` on: several become one."""
    x = node.input(0)
    shape = builder.shape(x)
    axis = normalized_axis(node, node.integer("axis", -1 if node.opset >= 13 else 1), len(shape))
    if node.opset >= 13 or math.prod(shape[axis + 1 :]) == 1:
        builder.emit(node, node.op, [x], {"axis": axis}, node.output)
        return
    matrix = (math.prod(shape[:axis]), math.prod(shape[axis:]))
    flat = builder.emit(node, "Reshape", [x], {"shape": matrix})
    flat = builder.emit(node, node.op, [flat], {"axis": 1})
    builder.emit(node, "Reshape", [flat], {"shape": shape}, node.output)


def _dropout(node: OnnxNode, builder: GraphBuilder) -> None:
    """At inference nothing is dropped, and the mask is all true."""
    node.real("ratio", 0.5)
    node.integer("seed", 0)
    if node.optional(2) and builder.require_constant(node, 2, "training_mode").any():
        raise node.unsupported("training_mode", True, "inference")
    builder.emit(node, "Identity", [node.input(0)], {}, node.output)
    if len(node.outputs) > 1 and node.outputs[1]:
        builder.add_constant(node.outputs[1], np.ones(builder.shape(node.input(0)), bool))


HANDLERS: Mapping[str, Handler] = {
    "BatchNormalization": _batch_normalization,
    "LpNormalization": _lp_normalization,
    "LogSoftmax": _softmax,
    "LRN": _lrn,
    "Softmax": _softmax,
    "Dropout": _dropout,
}
WRITERS: Mapping[str, Writer] = dict.fromkeys(("LRN", "Softmax", "LogSoftmax"), write_same)
