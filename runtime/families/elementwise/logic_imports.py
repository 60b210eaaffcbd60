"""Casts, comparisons, logic, bits, and the functions of one tensor that only the generic operators have."""

from collections.abc import Mapping

import numpy as np
import onnx

from runtime.importers.builder import GraphBuilder
from runtime.importers.emitting import Emitter
from runtime.importers.inputs import element_dtype
from runtime.importers.onnx_node import OnnxNode
from runtime.importers.registry import Handler
from runtime.importers.tensors import is_float
from runtime.types import ELEMENT_TYPES

_UNARY = {
    **{"Sign": "sign", "Tan": "tan", "Asin": "asin", "Acos": "acos", "Atan": "atan", "Sinh": "sinh", "Cosh": "cosh"},
    **{"Asinh": "asinh", "Acosh": "acosh", "Atanh": "atanh", "BitwiseNot": "bit_not"},
}
_TRUTH = {
    **{"Equal": "equal", "Less": "less", "LessOrEqual": "less_or_equal", "Greater": "greater"},
    **{"GreaterOrEqual": "greater_or_equal", "And": "and", "Or": "or", "Xor": "xor"},
}
_BITS = {"BitwiseAnd": "bit_and", "BitwiseOr": "bit_or", "BitwiseXor": "bit_xor"}


def _cast(node: OnnxNode, builder: GraphBuilder) -> None:
    """A cast from one float type to another is the identity, since the graph computes in float32."""
    node.integer("saturate", 1)
    node.text("round_mode", "up")
    target = node.integer("to", 0)
    dtype = element_dtype(target)
    if dtype is None:
        names = {number: name for name, number in onnx.TensorProto.DataType.items()}
        raise node.unsupported("to", names.get(target, target), ", ".join(ELEMENT_TYPES))
    Emitter(node, builder).cast(node.input(0), np.float32 if is_float(dtype) else dtype, node.output)


def _unary(function: str) -> Handler:
    def handle(node: OnnxNode, builder: GraphBuilder) -> None:
        Emitter(node, builder).element(function, node.input(0), output=node.output)

    return handle


def _binary(function: str, truth: bool) -> Handler:
    def handle(node: OnnxNode, builder: GraphBuilder) -> None:
        a, b = node.input(0), node.input(1)
        Emitter(node, builder).element(function, a, b, dtype="bool" if truth else None, output=node.output)

    return handle


def _truth(function: str) -> Handler:
    def handle(node: OnnxNode, builder: GraphBuilder) -> None:
        Emitter(node, builder).element(function, node.input(0), dtype="bool", output=node.output)

    return handle


def _is_inf(node: OnnxNode, builder: GraphBuilder) -> None:
    signs = node.integer("detect_negative", 1), node.integer("detect_positive", 1)
    Emitter(node, builder).element(
        "is_inf", node.input(0), dtype="bool", alpha=signs[0], beta=signs[1], output=node.output
    )


def _shift(node: OnnxNode, builder: GraphBuilder) -> None:
    direction = node.choice("direction", "", ("LEFT", "RIGHT")).lower()
    Emitter(node, builder).element(f"shift_{direction}", node.input(0), node.input(1), output=node.output)


def _modulo(node: OnnxNode, builder: GraphBuilder) -> None:
    function = "fmod" if node.integer("fmod", 0) else "mod"
    Emitter(node, builder).element(function, node.input(0), node.input(1), output=node.output)


def _where(node: OnnxNode, builder: GraphBuilder) -> None:
    Emitter(node, builder).element("where", node.input(0), node.input(1), node.input(2), output=node.output)


HANDLERS: Mapping[str, Handler] = {
    **{op: _unary(function) for op, function in _UNARY.items()},
    **{op: _binary(function, True) for op, function in _TRUTH.items()},
    **{op: _binary(function, False) for op, function in _BITS.items()},
    "Cast": _cast,
    "Not": _truth("not"),
    "IsNaN": _truth("is_nan"),
    "IsInf": _is_inf,
    "BitShift": _shift,
    "Mod": _modulo,
    "Where": _where,
}
