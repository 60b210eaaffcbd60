"""Rows of functions of each element."""

from __future__ import annotations

from runtime.activations import ACTIVATION_OF, ACTIVATION_PARAMETERS
from runtime.formats import rewriting
from runtime.operator_row import Operator, transposable
from runtime.shape_functions import broadcast, broadcast_to_first, same

BINARY = ("Add", "Sub", "Mul", "Div", "Max", "Min", "Pow")
UNARY = (
    *(*ACTIVATION_OF, "Exp", "Log", "Sqrt", "Reciprocal", "Neg", "Abs", "Floor", "Ceil", "Erf", "Identity"),
    *("Round", "Softplus", "Sin", "Cos"),
)


def _unary(op: str) -> Operator:
    parameters = ACTIVATION_PARAMETERS[ACTIVATION_OF.get(op, "none")]
    return Operator((1, 1), same, dict.fromkeys(parameters, "float"), format=transposable(rewriting.broadcasting))


OPERATORS = {
    **{op: Operator((2, 2), broadcast, fusible=True, format=transposable(rewriting.broadcasting)) for op in BINARY},
    **{op: _unary(op) for op in UNARY},
    "PRelu": Operator((2, 2), broadcast_to_first, format=transposable(rewriting.broadcasting)),
}
