"""The Reduce operators. The graph's own reductions keep the axes; a Reshape drops them."""

from collections.abc import Callable, Mapping

import numpy as np
import onnx

from runtime.exporters.onnx_writing import OnnxWriting, Writer
from runtime.families.reduction.definition import REDUCTIONS
from runtime.graph import Node
from runtime.importers.builder import GraphBuilder
from runtime.importers.emitting import Emitter
from runtime.importers.onnx_node import OnnxNode, normalized_axis
from runtime.importers.registry import Handler

_FIRST_OPSET_WITH_INPUT = {"ReduceSum": 13}
_Compute = Callable[[Emitter, str, tuple[int, ...]], str]


def _axes(node: OnnxNode, builder: GraphBuilder) -> tuple[int, ...] | None:
    """The axes, ascending; None where nothing is reduced."""
    rank = len(builder.shape(node.input(0)))
    if node.opset < _FIRST_OPSET_WITH_INPUT.get(node.op, 18):
        axes = node.integers("axes")
    else:
        axes = builder.integers(node, 1, "axes") if node.optional(1) else ()
        if node.integer("noop_with_empty_axes", 0) and not axes:
            return None
    return tuple(sorted({normalized_axis(node, axis, rank) for axis in axes} or range(rank)))


def _reduce(compute: _Compute) -> Handler:
    """Reduces with the axes kept, then drops them."""

    def handle(node: OnnxNode, builder: GraphBuilder) -> None:
        keepdims = bool(node.integer("keepdims", 1))
        axes = _axes(node, builder)
        emit, x = Emitter(node, builder), node.input(0)
        if axes is None:
            emit.op("Identity", _elements(compute, emit, x), output=node.output)
            return
        shape = builder.shape(x)
        kept = compute(emit, x, axes)
        left = tuple(1 if axis in axes else size for axis, size in enumerate(shape) if keepdims or axis not in axes)
        emit.reshape(kept, left, node.output)

    return handle


def _elements(compute: _Compute, emit: Emitter, x: str) -> str:
    """Without axes each element is reduced alone."""
    shape = emit.shape(x)
    return emit.reshape(compute(emit, emit.reshape(x, (*shape, 1)), (len(shape),)), shape)


def _plain(op: str) -> _Compute:
    return lambda emit, x, axes: emit.op(op, x, axes=axes, keepdims=True)


def _own(op: str) -> Handler:
    """A reduction that the graph has, written straight into the output where the axes stay."""
    general = _reduce(_plain(op))

    def handle(node: OnnxNode, builder: GraphBuilder) -> None:
        axes = _axes(node, builder)
        emit, x = Emitter(node, builder), node.input(0)
        if axes is None:
            emit.op("Identity", x, output=node.output)
        elif builder.dtype(x) == np.float32 and node.integer("keepdims", 1) and axes:
            emit.op(op, x, axes=axes, keepdims=True, output=node.output)
        elif axes:
            general(node, builder)
        else:
            node.integer("keepdims", 1)
            emit.op("Identity", x, output=node.output)

    return handle


def _sum(emit: Emitter, x: str, axes: tuple[int, ...]) -> str:
    return emit.op("ReduceSum", x, axes=axes, keepdims=True)


def _log_sum_exp(emit: Emitter, x: str, axes: tuple[int, ...]) -> str:
    """The greatest is taken out first, so that no power overflows."""
    top = emit.op("ReduceMax", x, axes=axes, keepdims=True)
    powers = emit.op("Exp", emit.op("Sub", x, top))
    return emit.op("Add", emit.op("Log", _sum(emit, powers, axes)), top)


def _l2(emit: Emitter, x: str, axes: tuple[int, ...]) -> str:
    squares = _sum(emit, emit.op("Mul", x, x), axes)
    if emit.builder.dtype(x) == np.float32:
        return emit.op("Sqrt", squares)
    return emit.element("sqrt", squares)


HANDLERS: Mapping[str, Handler] = {
    **{op: _own(op) for op in REDUCTIONS},
    "ReduceProd": _reduce(lambda emit, x, axes: emit.reduce("prod", x, axes)),
    "ReduceL1": _reduce(lambda emit, x, axes: _sum(emit, emit.op("Abs", x), axes)),
    "ReduceL2": _reduce(_l2),
    "ReduceSumSquare": _reduce(lambda emit, x, axes: _sum(emit, emit.op("Mul", x, x), axes)),
    "ReduceLogSum": _reduce(lambda emit, x, axes: emit.op("Log", _sum(emit, x, axes))),
    "ReduceLogSumExp": _reduce(_log_sum_exp),
}


def _write_reduction(writing: OnnxWriting, node: Node) -> onnx.NodeProto | None:
    """Leaves a reduction that drops its axes to the project's domain: the importer reads ONNX's as two operators."""
    if not node.attrs["keepdims"]:
        return None
    if node.op == "ReduceSum":
        return writing.plain(node, node.op, [node.inputs[0], writing.integers(node, "axes")], keepdims=1)
    return writing.plain(node, node.op, node.inputs, axes=node.attrs["axes"], keepdims=1)


WRITERS: Mapping[str, Writer] = dict.fromkeys(("ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin"), _write_reduction)
