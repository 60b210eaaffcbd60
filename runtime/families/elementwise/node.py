"""Kernel codes and numeric parameters of element-wise operators."""

from __future__ import annotations

import math

from runtime.graph import Node
from runtime.kernels.codes import Binary
from runtime.semantics.unary import Unary

UNARY = {"Relu": Unary.CLAMP, **{code.function.operator: code for code in Unary}}
BINARY = {
    **{"Add": Binary.ADD, "Sub": Binary.SUB, "Mul": Binary.MUL, "Div": Binary.DIV},
    **{"Max": Binary.MAX, "Min": Binary.MIN, "Pow": Binary.POW, "PRelu": Binary.PRELU},
}


def unary_numbers(node: Node) -> dict[str, float]:
    """Returns the kernel's `alpha` and `beta` for an operator of one tensor."""
    if node.op == "Relu":
        return {"alpha": 0.0, "beta": math.inf}
    return {"alpha": node.attrs.get("alpha", 0.0), "beta": node.attrs.get("beta", 0.0)}
