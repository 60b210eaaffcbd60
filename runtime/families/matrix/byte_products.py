"""Products of bytes with integer weights: what becomes of scales, zero points and bias, most of all on GPUs."""

from __future__ import annotations

import dataclasses

import numpy as np

from runtime.graph import Array, Node
from runtime.kernels.codes import (
    BYTES_FIXED,
    BYTES_FOUND,
    BYTES_NEAR,
    BYTES_OFFSETS,
    BYTES_ONCE,
    INPUT_IN_BYTES,
    OUTPUT_IN_BYTES,
)
from runtime.layout.integer_rows import IntegerRows
from runtime.lowering.builder import Builder
from runtime.lowering.value import Value, byte_bounds
from runtime.oracle.fixed_point import FixedPoint, fixed_point_of, product_factors, rounds_once, whole_bias
from runtime.semantics.unary import Unary
from runtime.types import Dot

MOST_PRODUCTS = (2**31 - 1) // (255 * 128)  # of an output, so that 32 bits hold their sum
_FINE = 16  # bits of a step that CPUs compute first
_MOST_OF_FIXED, _LEAST_SHIFT = 1 << 29, -29  # that fixed_product (kernels/buffer/prelude.cl) takes


@dataclasses.dataclass(frozen=True)
class ByteProduct:
    """What a kernel that reads bytes is given, so that its results are steps of the output, or floats.

    Attributes:
        rows: the integers, with what a sum of each row is worth.
        bias: of each row, with the zero point in it; by fixed point int32 [3, rows], see `fixed_rows`.
        defines, numbers: the options and floats of the launch that differ from those of floats.
    """

    rows: IntegerRows
    bias: Array
    defines: dict[str, int]
    numbers: dict[str, float]


def output_step(builder: Builder, node: Node) -> float:
    """What a unit of the results is worth: a step where they are bytes."""
    return builder.steps_of(node.output).step if builder.in_bytes(node.output) else 1.0


def byte_options(builder: Builder, node: Node, fixed: Array | None) -> tuple[dict[str, int], dict[str, float]]:
    """The options and floats of a launch that reads bytes, where they differ from those of floats.

    Results that are bytes are clamped to these, in steps. `fixed`: what they are rounded by, if by fixed point.
    """
    if not builder.in_bytes(node.output):
        return {"BYTES": INPUT_IN_BYTES}, {}
    found = fixed_point_of(builder.graph, node) if fixed is not None else None
    code = INPUT_IN_BYTES | OUTPUT_IN_BYTES | (bits_of_fixed(found) & ~BYTES_NEAR if found else 0)
    defines = {"BYTES": code, "ACTIVATION": int(Unary.CLAMP)}
    return defines, byte_bounds(builder.steps_of(node.output), "act_a act_b")


def byte_product(builder: Builder, node: Node, integers: Array, scales: Array, bias: Array) -> ByteProduct:
    """Of a node that reads its first input in bytes.

    `integers`: [groups, rows, cols] in int8; `scales`, `bias`: of all rows. Arm's dot products are of signed bytes: 128
    is taken from each.
    """
    steps, unit, dot = builder.steps_of(node.inputs[0]), output_step(builder, node), builder.target.dot
    of_sums = scales.astype(np.float64) * steps.step
    totals = integers.sum(axis=2, dtype=np.int64).reshape(-1)
    zero = steps.zero - 128 * (dot == Dot.ARM)
    rounded = (bias.astype(np.float64) - of_sums * totals * zero) / unit
    fixed = fixed_rows(builder, node, integers, scales, zero)
    worth = np.asarray(of_sums / unit, np.float32).reshape(*integers.shape[:2], 1)
    defines, numbers = byte_options(builder, node, fixed)
    if dot:
        defines["DOT"] = int(dot)
    return ByteProduct(IntegerRows(integers, worth, 0, 8), rounded if fixed is None else fixed, defines, numbers)


def fixed_rows(builder: Builder, node: Node, integers: Array, scales: Array, zero: int) -> Array | None:
    """Biases, multipliers and shifts of sums, int32 [3, rows]; None where they are not rounded by fixed point.

    Nor where a kernel's arithmetic does not hold them, or other scales than the source's were found. `integers`:
    [groups, rows, cols]; `zero`: what has to be taken from each byte.
    """
    found = fixed_point_of(builder.graph, node) if builder.in_bytes(node.output) else None
    if found is None or not np.allclose(scales, product_factors(found)[0], rtol=1e-6, atol=0):
        return None
    totals = integers.sum(axis=2, dtype=np.int64).reshape(-1)
    bias = builder.graph.constants[node.input(2)] if node.input(2) else None
    (multipliers, shifts, *_), biases = fixed_ends(found, bias, totals, zero)
    largest = 255 * np.abs(integers.astype(np.int16)).sum(axis=2, dtype=np.int64).reshape(-1) + np.abs(biases[0])
    fits = (largest << np.maximum(shifts, 0)).max() < _MOST_OF_FIXED and shifts.min() >= _LEAST_SHIFT
    return np.stack([biases[0], multipliers, shifts]).astype(np.int32) if fits else None


def bias_of(builder: Builder, node: Node, bias: Array) -> Value:
    """Biases as a constant, whole ones in words."""
    name = node.input(2) or f"{node.name}:bias"
    return builder.constant_words(name, bias.reshape(-1)) if bias.dtype == np.int32 else builder.constant(name, bias)


def found_ends(bias: Array, totals: Array, offsets: Array) -> tuple[Array, int]:
    """Biases, sums of weights and offsets [3, ...] for an input whose steps are found as it runs, and bits of BYTES.

    Integers are the bits of floats (cpu_quantized.h).
    """
    whole = (each.astype(np.int32).view(np.float32) for each in (totals, offsets))
    return np.stack([bias.astype(np.float32), *whole]), BYTES_FOUND | BYTES_OFFSETS * bool(offsets.any())


def fixed_ends(found: FixedPoint, bias: Array | None, totals: Array, zero: int) -> tuple[Array, Array]:
    """Multipliers, shifts, scales and slacks [4, channels] (cpu_quantized.h), and biases for sums over u and u - 128.

    `bias`: in floats; `totals`: of the weights of each channel; `zero`: the byte that stands for zero. Floats are their
    bits.
    """
    _, multipliers, shifts = product_factors(found)
    slacks = 0.0 if rounds_once(found) else np.where(multipliers, 2.0 ** (shifts - 1), 0.0)
    floats = (multipliers * 2.0 ** (shifts - 31 + _FINE), np.broadcast_to(slacks * 2.0**_FINE, shifts.shape))
    rows = (multipliers, shifts, *(each.astype(np.float32).view(np.int32) for each in floats))
    ends = np.stack([np.broadcast_to(each, totals.shape) for each in rows])
    whole = np.zeros(totals.shape, np.int64) if bias is None else whole_bias(bias, found)
    biases = np.stack([whole - totals.astype(np.int64) * (zero - shift) for shift in (0, 128)])
    return ends, biases


def bits_of_fixed(found: FixedPoint) -> int:
    """Bits of BYTES."""
    _, multipliers, shifts = product_factors(found)
    is_near = np.all((multipliers == 0) | ((shifts >= -31) & (shifts <= -1)))
    return BYTES_FIXED | BYTES_ONCE * rounds_once(found) | BYTES_NEAR * bool(is_near)
