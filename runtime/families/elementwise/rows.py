"""Rows of functions of each element."""

from __future__ import annotations

from runtime.formats import rewriting
from runtime.operators.row import AttributeKind, Operator, transposable
from runtime.semantics import quantization
from runtime.semantics.shape_functions import broadcast, broadcast_to_first, same
from runtime.semantics.unary import Unary

BINARY = ("Add", "Sub", "Mul", "Div", "Max", "Min", "Pow")
UNARY = {"Relu": (), "Identity": (), **{code.function.operator: code.function.parameter_names for code in Unary}}


def _unary(op: str, parameters: tuple[str, ...]) -> Operator:
    rule = quantization.kept if op == "Identity" else quantization.not_carried
    attributes: dict[str, AttributeKind] = dict.fromkeys(parameters, "float")
    return Operator((1, 1), same, attributes, format=transposable(rewriting.broadcasting), quantization=rule)


OPERATORS = {
    **{op: Operator((2, 2), broadcast, fusible=True, format=transposable(rewriting.broadcasting)) for op in BINARY},
    **{op: _unary(op, parameters) for op, parameters in UNARY.items()},
    "PRelu": Operator((2, 2), broadcast_to_first, format=transposable(rewriting.broadcasting)),
}
