"""Unary and binary operators, Clip, PRelu, and the operators of any number of inputs (Sum, Mean, Max, Min)."""

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
import onnx

from runtime.errors import ModelError
from runtime.exporters.onnx_writing import OPSET, OnnxWriting, Writer, write_same
from runtime.families.elementwise.definition import BINARY, UNARY
from runtime.graph import Node
from runtime.importers.builder import GraphBuilder
from runtime.importers.emitting import Emitter
from runtime.importers.onnx_node import OnnxNode
from runtime.importers.registry import Handler
from runtime.semantics.unary import Parameter, Unary

_FLOAT32_MAX = float(np.finfo(np.float32).max)
_FUNCTIONS = [code.function for code in Unary]


def _unary(op: str, parameters: Sequence[Parameter] = ()) -> Handler:
    def handle(node: OnnxNode, builder: GraphBuilder) -> None:
        attributes = {each.name: node.real(each.onnx or each.name, each.default) for each in parameters}
        builder.emit(node, op, [node.input(0)], attributes, node.output)

    return handle


def _gelu(node: OnnxNode, builder: GraphBuilder) -> None:
    approximate = node.text("approximate", "none")
    if approximate not in ("none", "tanh"):
        raise node.unsupported("approximate", approximate, "none, tanh")
    builder.emit(node, "Gelu" if approximate == "none" else "GeluTanh", [node.input(0)], {}, node.output)


def _binary(op: str) -> Handler:
    def handle(node: OnnxNode, builder: GraphBuilder) -> None:
        builder.emit(node, op, [node.input(0), node.input(1)], {}, node.output)

    return handle


def _pow(node: OnnxNode, builder: GraphBuilder) -> None:
    """Imports Pow, which alone may mix element types: a constant exponent of a float takes the type of the base."""
    base, exponent = node.input(0), node.input(1)
    value, kind = builder.constant(exponent), builder.dtype(base)
    if value is not None and value.dtype != kind and kind == np.float32:
        exponent = builder.derived(f"{exponent}/exponent", value.astype(kind))
    if builder.dtype(exponent) == kind == np.float32:
        builder.emit(node, "Pow", [base, exponent], {}, node.output)
        return
    Emitter(node, builder).element("pow", base, exponent, dtype=kind, output=node.output)


def _clip(node: OnnxNode, builder: GraphBuilder) -> None:
    """Imports Clip: bounds are attributes before opset 11, then inputs; one known at run time becomes Max or Min."""
    x = node.input(0)
    if node.opset < 11:
        low, high = node.real("min", -_FLOAT32_MAX), node.real("max", _FLOAT32_MAX)
    else:
        bounds = [node.input(index) for index in (1, 2) if node.optional(index)]
        if builder.dtype(x) != np.float32 or any(builder.constant(bound) is None for bound in bounds):
            _clip_at_run_time(node, builder)
            return
        low = builder.scalar(node, 1, "min") if node.optional(1) else -_FLOAT32_MAX
        high = builder.scalar(node, 2, "max") if node.optional(2) else _FLOAT32_MAX
    if np.isnan(low) or np.isnan(high):
        raise ModelError(f"{node}: the bounds {low} and {high} are not numbers")
    high = min(high, _FLOAT32_MAX)
    low = min(max(low, -_FLOAT32_MAX), high)  # the upper bound is applied last
    if low == 0 and high == _FLOAT32_MAX:
        builder.emit(node, "Relu", [x], {}, node.output)
        return
    builder.emit(node, "Clip", [x], {"alpha": low, "beta": high}, node.output)


def _clip_at_run_time(node: OnnxNode, builder: GraphBuilder) -> None:
    steps = [(op, node.optional(index)) for index, op in ((1, "Max"), (2, "Min")) if node.optional(index)]
    x = node.input(0)
    if not steps:
        builder.emit(node, "Identity", [x], {}, node.output)
        return
    for op, bound in steps[:-1]:
        x = builder.emit(node, op, [x, bound])
    builder.emit(node, steps[-1][0], [x, steps[-1][1]], {}, node.output)


def _chain(node: OnnxNode, builder: GraphBuilder, op: str, output: str | None) -> str:
    """Applies a binary operator to all inputs, one after the other; returns the name of the result."""
    result, *rest = [node.input(index) for index in range(len(node.inputs))]
    if not rest:
        return builder.emit(node, "Identity", [result], {}, output)
    for other in rest[:-1]:
        result = builder.emit(node, op, [result, other])
    return builder.emit(node, op, [result, rest[-1]], {}, output)


def _variadic(op: str) -> Callable[[OnnxNode, GraphBuilder], None]:
    def handle(node: OnnxNode, builder: GraphBuilder) -> None:
        node.input(0)
        _chain(node, builder, op, node.output)

    return handle


def _relu(node: OnnxNode, builder: GraphBuilder) -> None:
    if builder.dtype(node.input(0)) == np.float32:
        builder.emit(node, "Relu", [node.input(0)], {}, node.output)
        return
    emit, x = Emitter(node, builder), node.input(0)
    emit.op("Max", x, emit.constant(0, like=x), output=node.output)


def _mean(node: OnnxNode, builder: GraphBuilder) -> None:
    node.input(0)
    count = builder.derived(f"{node.output}/count", np.asarray(len(node.inputs), np.float32))
    builder.emit(node, "Div", [_chain(node, builder, "Add", None), count], {}, node.output)


def _prelu(node: OnnxNode, builder: GraphBuilder) -> None:
    """A slope of another type than float32, or one that is computed at run time, has no kernel of its own."""
    if builder.dtype(node.input(0)) != np.float32 or builder.constant(node.input(1)) is None:
        emit, (x, slope) = Emitter(node, builder), node.inputs
        below = emit.element("less", x, emit.constant(0, like=x), dtype="bool")
        emit.element("where", below, emit.op("Mul", x, slope), x, output=node.output)
        return
    builder.weights(node, 1, "slope")
    builder.emit(node, "PRelu", [node.input(0), node.input(1)], {}, node.output)


HANDLERS: Mapping[str, Handler] = {
    **{each.operator: _unary(each.operator, each.parameters) for each in _FUNCTIONS if each.in_onnx},
    "Identity": _unary("Identity"),
    **{op: _binary(op) for op in BINARY},
    "Gelu": _gelu,
    "Clip": _clip,
    "Relu": _relu,
    "Pow": _pow,
    "PRelu": _prelu,
    "Sum": _variadic("Add"),
    "Max": _variadic("Max"),
    "Min": _variadic("Min"),
    "Mean": _mean,
}


def _is_in_onnx(op: str, parameters: Iterable[str]) -> bool:
    """Whether ONNX has an operator of the name in the opset that is written, with these attributes."""
    known = onnx.defs.has(op, OPSET)
    return known and set(onnx.defs.get_schema(op, OPSET).attributes) == set(parameters)


def _write_clip(writing: OnnxWriting, node: Node) -> onnx.NodeProto:
    low, high = (
        writing.constant(node, what, np.asarray(node.attrs[name], np.float32))
        for what, name in (("min", "alpha"), ("max", "beta"))
    )
    return writing.plain(node, "Clip", [node.inputs[0], low, high])


WRITERS: Mapping[str, Writer] = {
    **dict.fromkeys((*BINARY, "PRelu", *(op for op, names in UNARY.items() if _is_in_onnx(op, names))), write_same),
    "Clip": _write_clip,
}
