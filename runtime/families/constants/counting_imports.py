"""Operators that count: Trilu, EyeLike, NonZero, Unique of constants."""

import math
from collections.abc import Mapping

import numpy as np

from runtime.errors import ModelError
from runtime.families.selection.suppression_imports import found_rows
from runtime.importers.builder import GraphBuilder, check_size
from runtime.importers.emitting import Emitter
from runtime.importers.inputs import element_dtype
from runtime.importers.onnx_node import OnnxNode
from runtime.importers.registry import Handler


def _trilu(node: OnnxNode, builder: GraphBuilder) -> None:
    emit, x = Emitter(node, builder), node.input(0)
    diagonal = int(builder.scalar(node, 1, "k")) if node.optional(1) else 0
    rows, columns = builder.shape(x)[-2:]
    check_size(node, (rows, columns))
    kept = np.tri(rows, columns, diagonal if not node.integer("upper", 1) else diagonal - 1, dtype=bool)
    mask = emit.constant(~kept if node.integer("upper", 1) else kept, dtype="bool")
    emit.element("where", mask, x, emit.constant(0, like=x), output=node.output)


def _eye_like(node: OnnxNode, builder: GraphBuilder) -> None:
    shape = builder.shape(node.input(0))
    check_size(node, shape)
    own = builder.dtype(node.input(0))
    dtype = element_dtype(node.integer("dtype", 0)) if node.has("dtype") else own
    if dtype is None:
        raise node.unsupported("dtype", node.attributes["dtype"], "numbers")
    builder.folded.append(node.name)
    if len(shape) != 2:
        raise node.unsupported("input shape", shape, "two axes")
    eye = np.eye(shape[0], shape[1], k=node.integer("k", 0))
    builder.add_constant(node.output, eye.astype(dtype))


def _non_zero(node: OnnxNode, builder: GraphBuilder) -> None:
    """How many there are depends on the values: there is room for all where a run decides them, and -1 behind them."""
    value = builder.constant(node.input(0))
    if value is None:
        _non_zero_at_run_time(node, builder)
        return
    builder.folded.append(node.name)
    builder.add_constant(node.output, np.asarray(np.nonzero(np.atleast_1d(value)), np.int64))


def _non_zero_at_run_time(node: OnnxNode, builder: GraphBuilder) -> None:
    emit, x = Emitter(node, builder), node.input(0)
    shape = builder.shape(x) or (1,)
    check_size(node, (math.prod(shape), 2 * len(shape)))  # coordinates are of eight bytes
    builder.graph.padded.append(node.name)
    missing = emit.element("not", emit.cast(emit.reshape(x, shape), "bool"))
    columns = [emit.constant(places, dtype="int64") for places in np.indices(shape)]
    emit.transpose(found_rows(emit, columns, missing), (1, 0), node.output)


def _unique(node: OnnxNode, builder: GraphBuilder) -> None:
    """How many there are depends on the values, so they must be known."""
    value = builder.require_constant(node, 0, "the tensor")
    axis = node.integer("axis", 0) if node.has("axis") else None
    try:
        found = np.unique(value, return_index=True, return_inverse=True, return_counts=True, axis=axis)
    except np.exceptions.AxisError:
        raise ModelError(f"{node}: axis {axis} of a tensor of shape {value.shape}") from None
    order = np.arange(len(found[1])) if node.integer("sorted", 1) else np.argsort(found[1])
    inverse = np.argsort(order)[found[2].reshape(-1)]
    builder.folded.append(node.name)
    results = np.take(found[0], order, axis or 0), found[1][order], inverse, found[3][order]
    for output, result in zip(node.outputs, results, strict=False):
        if output:
            builder.add_constant(output, result)


HANDLERS: Mapping[str, Handler] = {
    "Trilu": _trilu,
    "EyeLike": _eye_like,
    "NonZero": _non_zero,
    "Unique": _unique,
}
