"""Numbers of functions and modes that kernels (as -D options), farmrt's CPU operators and the lowering share."""

from __future__ import annotations

import enum
from collections.abc import Mapping

from runtime.semantics.recurrence import RecurrentFunction, RecurrentKind
from runtime.semantics.unary import Unary


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


class Residual(enum.IntEnum):
    """RESIDUAL: what a product's sums meet before the activation: nothing, an addend, or a factor."""

    NONE = 0
    ADD = 1
    MULTIPLY = 2


# BYTES, a sum of what lies in eight bits; RT_BYTES_PAIRS says of weights that two products sum to 16.
OUTPUT_IN_BYTES, RESIDUAL_IN_BYTES, INPUT_IN_BYTES = 1, 2, 4
BYTES_PAIRS, BYTES_FIXED, BYTES_ONCE, BYTES_NEAR, BYTES_FOUND, BYTES_OFFSETS, BYTES_BOUNDED = (
    8,
    16,
    32,
    64,
    128,
    256,
    512,
)

# What farmrt reads of a CPU step's options (` KEY=VALUE` behind its operator): a code, or a number below a bound. Other
# keys only vary an OpenCL kernel.
OPTIONS: Mapping[str, type[enum.IntEnum] | int] = {
    "ACTIVATION": Unary,
    "RESIDUAL": Residual,
    "UNARY": Unary,
    "BINARY": Binary,
    "POOL": Pooling,
    "REDUCE": Reduce,
    "PAD": Pad,
    "LOG": 2,
    "BLOCK": 1025,
    "FIRST": 3,  # the input of a first layer: 1 NCHW, 2 NHWC
    "FEW": 2,
    "EXPAND": 2,
    "INNER": Unary,
    "BYTES": 1024,
    "ZERO": 256,
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
    "WEIGHT_BITS": 17,  # 4 or 8: of integer weights (layout/integer_rows.py); 16: halves; 0: the plan's floats
    "HALF_SUMS": 2,  # 1: weights in half are multiplied in half, where the CPU has such arithmetic
    "WEIGHT_GROUP": 2**16,  # columns that share a scale; 0: all of a row
}
