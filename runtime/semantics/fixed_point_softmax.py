"""Softmax in fixed point, as TFLite's reference kernel computes it: of numbers of 32 bits, some of them whole ones.

A number with `i` whole bits counts 2^(i - 31). Differences to the largest one have 5 whole bits, exponentials none,
their sum 12.
"""

import numpy as np

from runtime.semantics.fixed_point import Whole, high_product, multiply, quantized_multiplier, shifted_right

_ONE = (1 << 31) - 1
_DIFFERENCE_BITS, _SUM_BITS = 5, 12
_FRACTION = 31 - _DIFFERENCE_BITS
_POWERS = range(-2, 5)  # exponentials of -2^power are multiplied


def softmax(values: Whole, step: float, levels: int) -> Whole:
    """Of whole numbers of `step` along the last axis, in `levels` steps of 1 / levels (256): 0 to levels."""
    factor = min(step * 2.0**_FRACTION, 2.0**31 - 1)
    multiplier, shift = quantized_multiplier(factor)
    least = -int(np.floor(((1 << _DIFFERENCE_BITS) - 1) * 2.0 ** (31 - _DIFFERENCE_BITS - int(shift))))
    differences = values - values.max(axis=-1, keepdims=True)
    counts = differences >= least
    exponentials = _exponential(multiply(np.where(counts, differences, 0), multiplier, shift))
    sums = np.where(counts, shifted_right(exponentials, _SUM_BITS), 0).sum(axis=-1, keepdims=True)
    reciprocals, bits = _reciprocal(sums)
    exponent = bits + 31 - int(np.log2(levels))
    found = shifted_right(high_product(exponentials, reciprocals), exponent)
    return np.where(counts, found, 0)


def _reciprocal(sums: Whole) -> tuple[Whole, Whole]:
    """1 / x of the numbers brought between 1 and 2, and by how many bits they were divided for that."""
    headroom = 31 - np.floor(np.log2(sums)).astype(np.int64)
    shifted = (sums << headroom) - (1 << 31)
    half = (shifted + _ONE + 1) // 2  # between a half and one; Newton's steps for a division begin with a line
    x = (1515870810 + high_product(half, -1010580540)).astype(np.int64)
    for _ in range(3):
        rest = (1 << 29) - high_product(half, x)
        x = x + (high_product(x, rest) << 2)
    return np.minimum(x << 1, _ONE), _SUM_BITS - headroom


def _exponential(differences: Whole) -> Whole:
    """Of what is at most zero: by a series within a quarter, times that of each power of two in the quarters."""
    quarter = 1 << (_FRACTION - 2)
    rest = (differences & (quarter - 1)) - quarter
    found, quarters = _series(rest << _DIFFERENCE_BITS), rest - differences
    for power in _POWERS:
        factor = int(np.floor(np.exp(-(2.0**power)) * 2.0**31 + 0.5))
        has_bit = quarters & (1 << (_FRACTION + power)) != 0
        found = np.where(has_bit, high_product(found, factor), found)
    return np.where(differences == 0, _ONE, found)


def _series(x: Whole) -> Whole:
    """Of a number between minus a quarter and zero, about minus an eighth."""
    at_eighth, third = int(np.floor(np.exp(-0.125) * 2.0**31 + 0.5)), int(np.floor(2.0**31 / 3 + 0.5))
    x = x + (1 << 28)
    square = high_product(x, x)
    cube, fourth = high_product(square, x), high_product(square, square)
    small = shifted_right(high_product(shifted_right(fourth, 2) + cube, third) + square, 1)
    return np.asarray(at_eighth + high_product(x + small, at_eighth), np.int64)
