"""ReduceMean, ReduceSum, ReduceMax, ReduceMin. The graph's reductions keep the axes; a Reshape drops them."""

from __future__ import annotations

from collections.abc import Mapping

from runtime.importers.builder import GraphBuilder
from runtime.importers.normalization import normalized_axis
from runtime.importers.onnx_node import OnnxNode
from runtime.importers.registry import Handler
from runtime.operators import REDUCTIONS


def _reduce(op: str) -> Handler:
    first_opset_with_input = 13 if op == "ReduceSum" else 18

    def handle(node: OnnxNode, builder: GraphBuilder) -> None:
        if node.opset < first_opset_with_input:
            axes, none_means_none = node.integers("axes"), False
        else:
            axes = builder.integers(node, 1, "axes") if node.optional(1) else ()
            none_means_none = bool(node.integer("noop_with_empty_axes", 0))
        _emit(node, builder, op, axes, none_means_none)

    return handle


def _emit(node: OnnxNode, builder: GraphBuilder, op: str, axes: tuple[int, ...], none_means_none: bool) -> None:
    keepdims = bool(node.integer("keepdims", 1))
    x = builder.shape(node.input(0))
    if not axes and none_means_none:
        builder.emit(node, "Identity", [node.input(0)], {}, node.output)
        return
    resolved = sorted({normalized_axis(node, axis, len(x)) for axis in axes} or range(len(x)))
    attributes = {"axes": tuple(resolved), "keepdims": True}
    if keepdims:
        builder.emit(node, op, [node.input(0)], attributes, node.output)
        return
    with_axes = builder.emit(node, op, [node.input(0)], attributes)
    left = tuple(size for axis, size in enumerate(x) if axis not in resolved)
    builder.emit(node, "Reshape", [with_axes], {"shape": left}, node.output)


OPERATORS: Mapping[str, Handler] = {op: _reduce(op) for op in REDUCTIONS}
