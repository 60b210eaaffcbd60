"""Codes of element-wise operators."""

from __future__ import annotations

from runtime.kernels.codes import Binary, Unary

UNARY = {
    **{"Sigmoid": Unary.SIGMOID, "Tanh": Unary.TANH, "LeakyRelu": Unary.LEAKY_RELU, "Elu": Unary.ELU},
    **{"HardSigmoid": Unary.HARD_SIGMOID, "HardSwish": Unary.HARD_SWISH, "Exp": Unary.EXP, "Log": Unary.LOG},
    **{"Sqrt": Unary.SQRT, "Reciprocal": Unary.RECIPROCAL, "Neg": Unary.NEG, "Abs": Unary.ABS},
    **{"Floor": Unary.FLOOR, "Ceil": Unary.CEIL, "Erf": Unary.ERF, "Relu": Unary.CLAMP, "Clip": Unary.CLAMP},
}
BINARY = {
    **{"Add": Binary.ADD, "Sub": Binary.SUB, "Mul": Binary.MUL, "Div": Binary.DIV},
    **{"Max": Binary.MAX, "Min": Binary.MIN, "Pow": Binary.POW, "PRelu": Binary.PRELU},
}
