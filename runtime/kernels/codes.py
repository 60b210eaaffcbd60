"""Numbers of functions and modes that kernels (as -D options), farmrt's CPU operators and the lowering share."""

from __future__ import annotations

import enum
from collections.abc import Mapping

from runtime.recurrence import RecurrentFunction, RecurrentKind


class Activation(enum.IntEnum):
    """ACTIVATION: what a fused operator applies last. CLAMP covers none, relu, relu6 and clip by its two bounds.

    Each has the number of the same function in Unary.
    """

    CLAMP = 0
    SIGMOID = 1
    TANH = 2
    LEAKY_RELU = 3
    ELU = 4
    HARD_SIGMOID = 5
    HARD_SWISH = 6
    GELU = 20
    GELU_TANH = 21
    SWISH = 22
    MISH = 23
    SELU = 24
    CELU = 25


class Unary(enum.IntEnum):
    """UNARY: element-wise functions of one tensor; CLAMP and those with parameters take alpha and beta."""

    CLAMP = 0
    SIGMOID = 1
    TANH = 2
    LEAKY_RELU = 3
    ELU = 4
    HARD_SIGMOID = 5
    HARD_SWISH = 6
    EXP = 7
    LOG = 8
    SQRT = 9
    NEG = 10
    ABS = 11
    FLOOR = 12
    CEIL = 13
    ERF = 14
    RECIPROCAL = 15
    ROUND = 16
    SOFTPLUS = 17
    SIN = 18
    COS = 19
    GELU = 20  # v times the normal distribution function of v
    GELU_TANH = 21  # its approximation by tanh
    SWISH = 22  # v * sigmoid(alpha * v)
    MISH = 23  # v * tanh(softplus(v))
    SELU = 24  # beta * (v >= 0 ? v : alpha * (exp(v) - 1))
    CELU = 25  # v >= 0 ? v : alpha * (exp(v / alpha) - 1)


class Binary(enum.IntEnum):
    """BINARY: element-wise functions of two tensors; PRELU is a >= 0 ? a : a * b."""

    ADD = 0
    SUB = 1
    MUL = 2
    DIV = 3
    MAX = 4
    MIN = 5
    POW = 6
    PRELU = 7


class Pooling(enum.IntEnum):
    """POOL: how a window is reduced."""

    MAX = 0
    AVERAGE = 1


class Order(enum.IntEnum):
    """FROM and TO of the CPU operator reorder: how the elements of a tensor of four axes follow each other."""

    NCHW = 0
    NHWC = 1
    BLOCKED = 2  # blocks of channels, padded: [n][ceil(c/BLOCK)][h][w][BLOCK]


class Reduce(enum.IntEnum):
    """REDUCE: how a set of elements is reduced."""

    MEAN = 0
    SUM = 1
    MAX = 2
    MIN = 3


class Pad(enum.IntEnum):
    """PAD: which values a padded tensor has outside."""

    CONSTANT = 0
    REFLECT = 1
    EDGE = 2


# What farmrt reads of a CPU step's options (` KEY=VALUE` behind its operator): a code, or a number below a bound. Other
# keys only vary an OpenCL kernel.
OPTIONS: Mapping[str, type[enum.IntEnum] | int] = {
    "ACTIVATION": Activation,
    "RESIDUAL": 2,
    "UNARY": Unary,
    "BINARY": Binary,
    "POOL": Pooling,
    "REDUCE": Reduce,
    "PAD": Pad,
    "LOG": 2,
    "BLOCK": 1025,
    "FIRST": 2,
    "WINO": 5,
    "FROM": Order,
    "TO": Order,
    "RECURRENT": RecurrentKind,
    "LINEAR": 2,
    "EXTRA": 2,
    "COUPLED": 2,
    "GATE": RecurrentFunction,
    "CELL": RecurrentFunction,
    "OUT": RecurrentFunction,
}
