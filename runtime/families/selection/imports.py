"""ArgMax, ArgMin, TopK, Hardmax, cumulated sums: what stands where along an axis."""

import math
from collections.abc import Mapping

import numpy as np

from runtime.errors import ModelError
from runtime.importers.builder import GraphBuilder
from runtime.importers.emitting import Emitter
from runtime.importers.onnx_node import OnnxNode, normalized_axis
from runtime.importers.registry import Handler
from runtime.semantics.generic_forms import reduction_form


def _arg(function: str) -> Handler:
    def handle(node: OnnxNode, builder: GraphBuilder) -> None:
        x = node.input(0)
        axis = normalized_axis(node, node.integer("axis", 0), len(builder.shape(x)))
        name = f"{function}_last" if node.integer("select_last_index", 0) else function
        keep = bool(node.integer("keepdims", 1))
        attributes = reduction_form(builder.shape(x), (axis,), keep, name, "int64")
        builder.emit(node, "StridedReduction", [x], attributes, node.output)

    return handle


def _top_k(node: OnnxNode, builder: GraphBuilder) -> None:
    x = node.input(0)
    axis = normalized_axis(node, node.integer("axis", -1), len(builder.shape(x)))
    count = int(builder.scalar(node, 1, "k")) if node.opset >= 10 else node.integer("k", 1)
    largest = bool(node.integer("largest", 1))
    node.integer("sorted", 1)  # unsorted is any order, and so also this one
    if count < 1:
        raise ModelError(f"{node}: k is {count}")
    for index, output in enumerate(node.outputs):
        attributes = {"axis": axis, "count": count, "largest": largest, "positions": bool(index)}
        if output:
            builder.emit(node, "Sorting", [x], attributes, output)


def _hardmax(node: OnnxNode, builder: GraphBuilder) -> None:
    """Before opset 13 all axes from `axis` on are one."""
    emit, x = Emitter(node, builder), node.input(0)
    shape = builder.shape(x)
    axis = normalized_axis(node, node.integer("axis", -1 if node.opset >= 13 else 1), len(shape))
    if node.opset >= 13:
        _hot(emit, x, axis, node.output)
        return
    matrix = emit.reshape(x, (math.prod(shape[:axis]), math.prod(shape[axis:])))
    emit.reshape(_hot(emit, matrix, 1), shape, node.output)


def _hot(emit: Emitter, x: str, axis: int, output: str | None = None) -> str:
    """One where the first of the largest values along an axis stands, else zero."""
    shape = emit.shape(x)
    first = emit.reduce("arg_max", x, (axis,), dtype="int64")
    classes = np.arange(shape[axis]).reshape(-1, *(1,) * (len(shape) - axis - 1))
    hot = emit.element("equal", first, emit.constant(classes, dtype="int64"), dtype="bool")
    return emit.cast(hot, emit.builder.dtype(x), output)


def _cumulate(function: str) -> Handler:
    def handle(node: OnnxNode, builder: GraphBuilder) -> None:
        x = node.input(0)
        axis = normalized_axis(node, int(builder.scalar(node, 1, "the axis")), len(builder.shape(x)))
        flags = {name: bool(node.integer(name, 0)) for name in ("exclusive", "reverse")}
        builder.emit(node, "Cumulation", [x], {"function": function, "axis": axis, **flags}, node.output)

    return handle


HANDLERS: Mapping[str, Handler] = {
    "ArgMax": _arg("arg_max"),
    "ArgMin": _arg("arg_min"),
    "TopK": _top_k,
    "Hardmax": _hardmax,
    "CumSum": _cumulate("sum"),
    "CumProd": _cumulate("prod"),
}
