"""Operators that count: Trilu, EyeLike, NonZero and Unique of constants, window functions of signals."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from runtime.importers.builder import GraphBuilder, check_size
from runtime.importers.emitting import Emitter
from runtime.importers.inputs import element_dtype
from runtime.importers.onnx_node import OnnxNode
from runtime.importers.registry import Handler


def _trilu(node: OnnxNode, builder: GraphBuilder) -> None:
    emit, x = Emitter(node, builder), node.input(0)
    diagonal = int(builder.scalar(node, 1, "k")) if node.optional(1) else 0
    rows, columns = builder.shape(x)[-2:]
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
    """The result's shape depends on the values, so they must be known."""
    value = builder.require_constant(node, 0, "the tensor")
    builder.folded.append(node.name)
    builder.add_constant(node.output, np.asarray(np.nonzero(value), np.int64))


OPERATORS: Mapping[str, Handler] = {"Trilu": _trilu, "EyeLike": _eye_like, "NonZero": _non_zero}
