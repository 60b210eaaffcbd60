"""Lowers FullyConnected on rows of eight bits: each is an image of one pixel, and the product a convolution of them."""

from __future__ import annotations

import math

import numpy as np

from runtime.families.convolution.block_kernels import QUANTIZED_CONV2D
from runtime.families.convolution.quantized_lowering import as_floats, bounded, pairs, quads
from runtime.families.matrix.byte_products import MOST_PRODUCTS, bits_of_fixed, fixed_ends, found_ends
from runtime.graph import Node
from runtime.kernels.codes import OUTPUT_IN_BYTES
from runtime.layout.integer_rows import IntegerRows, integer_rows
from runtime.lowering.activation import activation_code
from runtime.lowering.blocks import QuantizedOperator
from runtime.lowering.builder import IMAGE_RANK, Builder
from runtime.lowering.launch import Tensors
from runtime.lowering.value import Value, byte_bounds
from runtime.oracle.fixed_point import fixed_point_of
from runtime.plan.plan import ProfileInfo
from runtime.semantics.quantization import EIGHT_BITS
from runtime.types import ElementType, Storage

_LEAST_ROWS = 8  # fewer read integer weights as fast in floats
_LEAST_RESULTS = 64  # of a row that has to be brought into bytes
_WINDOW = {
    name: 1 for side in "hw" for name in (f"in_{side}", f"out_{side}", f"k_{side}", f"stride_{side}", f"dil_{side}")
}


def _integers(builder: Builder, node: Node) -> IntegerRows | None:
    """The weights as integers with a scale for each row; None where they are others."""
    has_offsets = builder.has_found_steps(node.inputs[0])
    found = integer_rows(builder.graph.constants[node.inputs[1]][None], has_offsets)
    return found if found is not None and not found.group else None


def _serves(builder: Builder, node: Node) -> bool:
    """Rows and results of whole blocks, with nothing joined to the product; of found steps any, and with an addend."""
    graph, block = builder.graph, builder.block
    if builder.has_found_steps(node.inputs[0]):
        return _serves_found(builder, node)
    if any(node.inputs[3:]) or graph.tensors[node.inputs[0]].quantization is None:
        return False
    if len(graph.shape(node.inputs[0])) == IMAGE_RANK:
        return False  # bytes of these lie as those of images
    (*rows, in_c), out_c = graph.shape(node.inputs[0]), graph.shape(node.output)[-1]
    fits = in_c % block == out_c % block == 0 and math.prod(rows) >= _LEAST_ROWS and in_c <= MOST_PRODUCTS
    return fits and _integers(builder, node) is not None


def _serves_found(builder: Builder, node: Node) -> bool:
    graph, out = builder.graph, builder.graph.shape(node.output)
    in_c, addend = graph.shape(node.inputs[0])[-1], node.input(3)
    is_alike = not addend or (graph.shape(addend) == out and out[-1] % builder.block == 0)
    if any(node.inputs[4:]):
        return False  # a factor
    fits = len(graph.shape(node.inputs[0])) != IMAGE_RANK and in_c <= MOST_PRODUCTS and is_alike
    return fits and _integers(builder, node) is not None


def _pays(builder: Builder, node: Node) -> bool:
    """Whether rows that something else rounds are worth to be brought into bytes."""
    known = builder.graph.tensors[node.inputs[0]].quantization
    is_known = known is not None and known.is_whole and known.integers in EIGHT_BITS
    return is_known and builder.graph.shape(node.output)[-1] >= _LEAST_RESULTS


def _lower(builder: Builder, node: Node) -> None:
    graph, weights = builder.graph, _integers(builder, node)
    x, in_bytes = builder.read_bytes(node.inputs[0]), builder.in_bytes(node.output)
    y = builder.write_bytes(node.output) if in_bytes else builder.write(node.output, Storage.FLAT)
    assert x.steps and weights
    rows, in_c = x.shape[:2]
    out_c, result = y.shape[1] if in_bytes else y.shape[-1], y
    if out_c % builder.block:
        result = Value(f"{y.name}:blocks", (rows, out_c, 1, 1), Storage.BLOCKED, ElementType.F32, block=builder.block)
    y_step = y.steps.step if y.steps else 1.0
    scales = weights.scales.reshape(-1).astype(np.float64) * x.steps.step
    bias = graph.constants[node.input(2)].astype(np.float64) if node.input(2) else np.zeros(len(scales))
    totals = weights.integers[0].sum(axis=1, dtype=np.int64)
    biases = np.stack([bias - scales * totals * (x.steps.zero - shift) for shift in (0, 128)])
    code, numbers = activation_code(node.attrs)
    numbers = byte_bounds(y.steps, "act_a act_b") if y.steps else numbers
    packed = quads(weights.integers[..., None, None], builder.block)
    ends = scales / y_step, biases / y_step
    fixed = bounded(in_c, *ends)
    if found := fixed_point_of(graph, node) if y.steps else None:
        given = graph.constants[node.input(2)] if node.input(2) else None
        multipliers, whole = fixed_ends(found, given, totals, x.steps.zero)
        ends = as_floats(multipliers), as_floats(whole)
        fixed = bits_of_fixed(found)
    if x.steps.is_found:
        assert weights.offsets is not None
        biases, fixed = found_ends(bias / y_step, totals, weights.offsets[0])
        ends = scales / y_step, biases
    if result is not y:
        missing = -out_c % builder.block
        ends = np.pad(ends[0], (0, missing)), np.pad(ends[1], ((0, 0), (0, missing)))
    residual = builder.read(node.inputs[3], Storage.FLAT) if node.input(3) else None
    tensors: Tensors = {
        "x": x,
        "w": builder.constant_bytes(node.inputs[1], packed),
        "scales": builder.constant(f"{node.name}:scales", ends[0]),
        "b": builder.constant(node.input(2) or f"{node.name}:bias", ends[1]),
        "residual": residual or x,
        "y": result,
    }
    dims = {**_WINDOW, "batch": rows, "in_c": in_c, "out_c": out_c, "groups": 1, "pad_t": 0, "pad_l": 0}
    defines = {"ACTIVATION": code, "RESIDUAL": int(residual is not None), "BLOCK": builder.block, "ZERO": x.steps.zero}
    defines["BYTES"] = OUTPUT_IN_BYTES * (y.steps is not None) | pairs(packed) | fixed
    numbers |= {"residual_scale": 1.0, "step": x.steps.step}
    shown = ProfileInfo(graph.shape(node.output), graph.shape(node.inputs[1]))
    builder.launch(QUANTIZED_CONV2D, node.name, "FullyConnected", tensors, dims, numbers, defines, shown, "eight bits")
    if result is not y:
        flat = Value(y.name, result.shape, Storage.FLAT, y.element, 0, y)
        builder.convert(f"{node.name}:rows", result, flat, "BLOCKED -> FLAT")


QUANTIZED_OPERATORS = {"FullyConnected": QuantizedOperator(_serves, _lower, _pays, rounds=False, inputs=1)}
