"""Kernel codes and numeric parameters of element-wise operators."""

from __future__ import annotations

import math

from runtime.graph import Node
from runtime.kernels.codes import Binary, Unary

UNARY = {
    **{"Sigmoid": Unary.SIGMOID, "Tanh": Unary.TANH, "LeakyRelu": Unary.LEAKY_RELU, "Elu": Unary.ELU},
    **{"HardSigmoid": Unary.HARD_SIGMOID, "HardSwish": Unary.HARD_SWISH, "Exp": Unary.EXP, "Log": Unary.LOG},
    **{"Sqrt": Unary.SQRT, "Reciprocal": Unary.RECIPROCAL, "Neg": Unary.NEG, "Abs": Unary.ABS},
    **{"Floor": Unary.FLOOR, "Ceil": Unary.CEIL, "Erf": Unary.ERF, "Relu": Unary.CLAMP, "Clip": Unary.CLAMP},
    **{"Round": Unary.ROUND, "Softplus": Unary.SOFTPLUS, "Sin": Unary.SIN, "Cos": Unary.COS},
    **{"Gelu": Unary.GELU, "GeluTanh": Unary.GELU_TANH, "Swish": Unary.SWISH, "Mish": Unary.MISH},
    **{"Selu": Unary.SELU, "Celu": Unary.CELU},
}
BINARY = {
    **{"Add": Binary.ADD, "Sub": Binary.SUB, "Mul": Binary.MUL, "Div": Binary.DIV},
    **{"Max": Binary.MAX, "Min": Binary.MIN, "Pow": Binary.POW, "PRelu": Binary.PRELU},
}


def unary_numbers(node: Node) -> dict[str, float]:
    """Returns the kernel's `alpha` and `beta` for an operator of one tensor."""
    if node.op == "Relu":
        return {"alpha": 0.0, "beta": math.inf}
    return {"alpha": node.attrs.get("alpha", 0.0), "beta": node.attrs.get("beta", 0.0)}
