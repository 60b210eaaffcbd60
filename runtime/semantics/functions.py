"""Functions of the generic operators; their numbers stand in plans and in farmrt's header (plan/header.py).

In the graph a function is its member's name in lower case. Arithmetic is that of NumPy: integers wrap round, a mean or
a root of floats is computed in double precision and rounded once.
"""

import enum


class ElementFunction(enum.IntEnum):
    """What an Elementwise operator computes of one, two or three tensors."""

    CAST = 0
    FILL = 1  # alpha, of no tensor
    NEG = 2
    ABS = 3
    SIGN = 4
    CEIL = 5
    FLOOR = 6
    ROUND = 7  # half to even
    EXP = 8
    LOG = 9
    SQRT = 10
    RECIPROCAL = 11
    SIN = 12
    COS = 13
    TAN = 14
    ASIN = 15
    ACOS = 16
    ATAN = 17
    SINH = 18
    COSH = 19
    TANH = 20
    ASINH = 21
    ACOSH = 22
    ATANH = 23
    ERF = 24
    SIGMOID = 25
    IS_NAN = 26
    IS_INF = 27  # alpha: detects -inf, beta: +inf
    NOT = 28
    BIT_NOT = 29
    ADD = 30
    SUB = 31
    MUL = 32
    DIV = 33  # integers towards zero
    MOD = 34  # sign of the divisor
    FMOD = 35  # sign of the dividend
    POW = 36
    MAX = 37
    MIN = 38
    AND = 39
    OR = 40
    XOR = 41
    BIT_AND = 42
    BIT_OR = 43
    BIT_XOR = 44
    SHIFT_LEFT = 45
    SHIFT_RIGHT = 46
    EQUAL = 47
    LESS = 48
    LESS_OR_EQUAL = 49
    GREATER = 50
    GREATER_OR_EQUAL = 51
    WHERE = 52

    @property
    def operands(self) -> int:
        """How many tensors it takes."""
        if self == ElementFunction.FILL:
            return 0
        if self == ElementFunction.WHERE:
            return 3
        return 2 if ElementFunction.ADD <= self <= ElementFunction.GREATER_OR_EQUAL else 1

    @property
    def is_of_reals(self) -> bool:
        """Whether it has a meaning for reals alone, to which integers are then converted."""
        return ElementFunction.CEIL <= self <= ElementFunction.IS_INF


class ReductionFunction(enum.IntEnum):
    """What a StridedReduction computes of a window; the ARG functions give the position in it, row-major."""

    SUM = 0
    MEAN = 1
    MAX = 2
    MIN = 3
    PROD = 4
    ARG_MAX = 5
    ARG_MAX_LAST = 6
    ARG_MIN = 7
    ARG_MIN_LAST = 8


class UpdateFunction(enum.IntEnum):
    """How an IndexedWrite joins an update with what stands there."""

    NONE = 0
    ADD = 1
    MUL = 2
    MAX = 3
    MIN = 4


class CumulationFunction(enum.IntEnum):
    """What a Cumulation adds up along an axis."""

    SUM = 0
    PROD = 1


class RegionFunction(enum.IntEnum):
    """What a RegionPooling computes of the part of an image within a bin: of whole pixels, or of bilinear samples."""

    MAX_PIXELS = 0  # bins begin at rounded coordinates
    MEAN_PIXELS = 1  # coordinates are rounded, bins are not
    MAX_SAMPLES = 2  # of each sample's weighted pixels
    MEAN_SAMPLES = 3


def function_names(functions: type[enum.IntEnum]) -> tuple[str, ...]:
    """The functions as the graph says them."""
    return tuple(function.name.lower() for function in functions)
