"""The arithmetic by which TFLite's reference kernels bring whole numbers to another scale: products in fixed point.

A positive factor is a multiplier of 31 bits, which counts 2^-31, and a shift to the left. The product is rounded twice:
to a whole number (halves upwards), then when it is shifted to the right (halves away from zero).
"""

from typing import Any

import numpy as np
import numpy.typing as npt

Whole = npt.NDArray[np.int64]
_BITS = 31


def rounded_away(values: npt.ArrayLike) -> Whole:
    """The nearest whole numbers, of halves those away from zero."""
    values = np.asarray(values, np.float64)
    return np.asarray(np.sign(values) * np.floor(np.abs(values) + 0.5), np.int64)


def quantized_multiplier(real: npt.ArrayLike) -> tuple[Whole, Whole]:
    """Multipliers and shifts of factors; both 0 for what no shift of a word holds."""
    mantissa, shift = np.frexp(np.asarray(real, np.float64))
    multiplier, shift = rounded_away(mantissa * 2.0**_BITS), shift.astype(np.int64)
    full = np.abs(multiplier) == 1 << _BITS
    multiplier, shift = np.where(full, multiplier // 2, multiplier), shift + full
    is_tiny = shift < -_BITS
    return np.where(is_tiny, 0, multiplier), np.where(is_tiny, 0, shift)


def divided_multiplier(multiplier: Whole, shift: Whole, count: int) -> tuple[Whole, Whole]:
    """A multiplier and its shift, divided by a number of elements, of which as many bits are kept as that has."""
    bits = np.minimum(min(count.bit_length() - 1, 32), _BITS + shift)
    return np.left_shift(multiplier, bits) // count, shift - bits


def multiply(values: npt.NDArray[Any], multiplier: npt.ArrayLike, shift: npt.ArrayLike) -> Whole:
    """Products of whole numbers of 32 bits with factors."""
    left, right = np.maximum(shift, 0), np.maximum(np.negative(shift), 0)
    return shifted_right(high_product(np.left_shift(values.astype(np.int64), left), multiplier), right)


def multiply_once(values: npt.NDArray[Any], multiplier: npt.ArrayLike, shift: npt.ArrayLike) -> Whole:
    """The same, rounded once, halves upwards."""
    return high_product(values, multiplier, np.subtract(_BITS, shift))


def high_product(values: npt.NDArray[Any], multiplier: npt.ArrayLike, bits: npt.ArrayLike = _BITS) -> Whole:
    """values * multiplier / 2^bits, halves rounded upwards: what ARM calls SQRDMULH; it must not saturate."""
    bits = np.asarray(bits, np.int64)
    product: Whole = values.astype(np.int64) * np.asarray(multiplier, np.int64)
    return np.asarray((product + (np.int64(1) << (bits - 1))) >> bits, np.int64)


def shifted_right(values: Whole, bits: npt.ArrayLike) -> Whole:
    """values / 2^bits, halves rounded away from zero."""
    bits = np.asarray(bits, np.int64)
    nudge = np.where(bits > 0, (np.int64(1) << np.maximum(bits - 1, 0)) - (values < 0), 0)
    return np.asarray((values + nudge) >> bits, np.int64)


def divided(sums: Whole, counts: npt.ArrayLike) -> Whole:
    """sums / counts, halves rounded away from zero."""
    counts = np.asarray(counts, np.int64)
    return np.asarray(np.sign(sums) * ((np.abs(sums) + counts // 2) // counts), np.int64)


def interpolation_weights(extent: int, size: int, mode: str) -> Whole:
    """What each of `size` positions takes of `extent` pixels, int64 [size, extent], in 2^-10; `mode` as ONNX has it."""
    inputs, outputs = (extent - 1, size - 1) if mode == "align_corners" and size > 1 else (extent, size)
    step = ((inputs << 10) + outputs // 2) // outputs
    places = np.arange(size) * step + (step // 2 - (1 << 9) if "half_pixel" in mode else 0)
    lower = np.maximum(places >> 10, 0)
    upper = np.minimum(-(-places >> 10), extent - 1)
    weights = np.zeros((size, extent), np.int64)
    weights[np.arange(size), lower] = (1 << 10) - (places - (lower << 10))
    weights[np.arange(size), upper] += places - (lower << 10)
    return weights


def hard_swish(values: Whole, step: float, target: float) -> Whole:
    """Of whole numbers of `step`, in those of `target`, by multipliers of 16 bits."""
    fine = np.float32(1 / 128) * np.float32(step)
    of_output, shift_of_output = _in_16_bits(fine / np.float32(target))
    of_gate, shift_of_gate = _in_16_bits(fine / np.float32(3 / 32768))
    wide = values << 7
    gate = _saturated(wide << max(shift_of_gate - 1, 0))
    gate = high_product(gate, of_gate, 15)
    gate = _saturated(gate << 1) if shift_of_gate > 0 else shifted_right(gate, max(-shift_of_gate, 0))
    gate = (gate + (1 << 15)) >> 1
    product = gate * high_product(wide, of_output, 15)
    towards_zero = np.sign(product) * (np.abs(product) >> 15)
    return shifted_right(towards_zero, -shift_of_output)


def _saturated(values: Whole) -> Whole:
    return np.asarray(np.clip(values, -(1 << 15), (1 << 15) - 1), np.int64)


def _in_16_bits(real: np.floating[Any]) -> tuple[int, int]:
    """A multiplier of 15 bits and its shift."""
    multiplier, shift = map(int, quantized_multiplier(real))
    return min((multiplier + (1 << 15)) >> 16, (1 << 15) - 1), shift
