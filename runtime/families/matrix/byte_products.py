"""Products of bytes with integer weights, on a GPU's buffers: what becomes of scales, zero points and bias."""

from __future__ import annotations

import dataclasses

import numpy as np

from runtime.graph import Array, Node
from runtime.kernels.codes import INPUT_IN_BYTES, OUTPUT_IN_BYTES
from runtime.layout.integer_rows import IntegerRows
from runtime.lowering.builder import Builder
from runtime.lowering.value import byte_bounds
from runtime.semantics.unary import Unary
from runtime.types import Dot

MOST_PRODUCTS = (2**31 - 1) // (255 * 128)  # of an output, so that 32 bits hold their sum


@dataclasses.dataclass(frozen=True)
class ByteProduct:
    """What a kernel that reads bytes is given, so that its results are steps of the output, or floats.

    Attributes:
        rows: the integers, with what a sum of each row is worth.
        bias: of each row, with the zero point in it.
        defines, numbers: the options and floats of the launch that differ from those of floats.
    """

    rows: IntegerRows
    bias: Array
    defines: dict[str, int]
    numbers: dict[str, float]


def output_step(builder: Builder, node: Node) -> float:
    """What a unit of the results is worth: a step where they are bytes."""
    return builder.steps_of(node.output).step if builder.in_bytes(node.output) else 1.0


def byte_options(builder: Builder, node: Node) -> tuple[dict[str, int], dict[str, float]]:
    """The options and floats of a launch that reads bytes, where they differ from those of floats.

    Results that are bytes are clamped to these, in steps.
    """
    if not builder.in_bytes(node.output):
        return {"BYTES": INPUT_IN_BYTES}, {}
    defines = {"BYTES": INPUT_IN_BYTES + OUTPUT_IN_BYTES, "ACTIVATION": int(Unary.CLAMP)}
    return defines, byte_bounds(builder.steps_of(node.output), "act_a act_b")


def byte_product(builder: Builder, node: Node, integers: Array, scales: Array, bias: Array) -> ByteProduct:
    """Of a node that reads its first input in bytes.

    `integers`: [groups, rows, cols] in int8; `scales`, `bias`: of all rows. Arm's dot products are of signed bytes: 128
    is taken from each.
    """
    steps, unit, dot = builder.steps_of(node.inputs[0]), output_step(builder, node), builder.target.dot
    of_sums = scales.astype(np.float64) * steps.step
    totals = integers.sum(axis=2, dtype=np.int64).reshape(-1)
    bias = bias.astype(np.float64) - of_sums * totals * (steps.zero - 128 * (dot == Dot.ARM))
    worth = np.asarray(of_sums / unit, np.float32).reshape(*integers.shape[:2], 1)
    defines, numbers = byte_options(builder, node)
    if dot:
        defines["DOT"] = int(dot)
    return ByteProduct(IntegerRows(integers, worth, 0, 8), bias / unit, defines, numbers)
