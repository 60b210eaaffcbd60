"""Rows of functions of each element."""

from __future__ import annotations

from runtime.formats import rewriting
from runtime.operator_row import Operator, transposable
from runtime.shape_functions import broadcast, broadcast_to_first, same
from runtime.unary import Unary

BINARY = ("Add", "Sub", "Mul", "Div", "Max", "Min", "Pow")
UNARY = {"Relu": (), "Identity": (), **{code.function.operator: code.function.parameter_names for code in Unary}}


def _unary(parameters: tuple[str, ...]) -> Operator:
    return Operator((1, 1), same, dict.fromkeys(parameters, "float"), format=transposable(rewriting.broadcasting))


OPERATORS = {
    **{op: Operator((2, 2), broadcast, fusible=True, format=transposable(rewriting.broadcasting)) for op in BINARY},
    **{op: _unary(parameters) for op, parameters in UNARY.items()},
    "PRelu": Operator((2, 2), broadcast_to_first, format=transposable(rewriting.broadcasting)),
}
