"""Quantised operators as others: those that round their results as floats, all else in steps of int32 and float32.

The importer has checked the shapes and types.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from runtime.families.convolution.imports import HANDLERS as CONVOLUTION
from runtime.families.convolution.imports import windowed_product
from runtime.families.matrix.imports import HANDLERS as PRODUCTS
from runtime.families.matrix.imports import product
from runtime.families.quantization.imports import HANDLERS as QUANTIZED
from runtime.families.quantization.rows import windows_of
from runtime.importers.builder import GraphBuilder
from runtime.importers.emitting import Emitter
from runtime.importers.onnx_node import OnnxNode
from runtime.importers.registry import Handler
from runtime.semantics.generic import row_major_strides

_OPSET = 21  # in which the operators that others are brought down to are meant


def _spread(node: OnnxNode, emit: Emitter, x: str, parameter: str) -> str:
    """A scale or zero point in a shape that broadcasts to x: one for all, for each index of an axis, or for blocks."""
    shape, own = emit.shape(x), emit.shape(parameter)
    axis, block = node.attributes["axis"], node.attributes["block_size"]
    if math.prod(own) == 1 and not block:
        return emit.reshape(parameter, ())
    if not block:
        return emit.reshape(parameter, (shape[axis], *(1,) * (len(shape) - axis - 1)))
    steps = row_major_strides(own)
    wide = (*own[: axis + 1], block, *own[axis + 1 :])
    repeated = emit.view(parameter, wide, (*steps[: axis + 1], 0, *steps[axis + 1 :]))
    merged = emit.reshape(repeated, (*own[:axis], own[axis] * block, *own[axis + 1 :]))
    return emit.slice(merged, axis, 0, shape[axis])


def _saturated(emit: Emitter, values: str, dtype: np.dtype[Any], output: str | None) -> str:
    """Whole floats as integers, those out of range as the nearest that there is."""
    info = np.iinfo(dtype)
    limited = emit.op("Clip", values, alpha=float(info.min), beta=float(info.max))
    return emit.cast(limited, dtype, output)


def _quantize(node: OnnxNode, builder: GraphBuilder) -> None:
    emit, x, scale, zero_point = Emitter(node, builder), node.input(0), node.input(1), node.optional(2)
    dtype = np.dtype(node.attributes["dtype"])
    divided = emit.op("Div", emit.cast(x, np.float32), _spread(node, emit, x, emit.cast(scale, np.float32)))
    steps = emit.op("Round", divided)
    if zero_point:
        steps = emit.op("Add", steps, _spread(node, emit, x, emit.cast(zero_point, np.float32)))
    _saturated(emit, steps, dtype, node.output)


def _dequantize(node: OnnxNode, builder: GraphBuilder) -> None:
    emit, x, scale, zero_point = Emitter(node, builder), node.input(0), node.input(1), node.optional(2)
    exact = "float32" if builder.dtype(x).itemsize <= 2 else "int32"  # in which zero points are subtracted
    whole = emit.cast(x, exact)
    if zero_point:
        whole = emit.op("Sub", whole, _spread(node, emit, x, emit.cast(zero_point, exact)))
    emit.op("Mul", emit.cast(whole, np.float32), _spread(node, emit, x, scale), output=node.output)


def _centred(emit: Emitter, x: str, zero_point: str, axis: int) -> str:
    """The tensor less its zero point, which may be one or one for each index of an axis, in int32."""
    x = emit.cast(x, "int32")
    if not zero_point:
        return x
    count, rank = math.prod(emit.shape(zero_point)), len(emit.shape(x))
    shape = () if count == 1 else (count, *(1,) * (rank - axis - 1))
    return emit.op("Sub", x, emit.reshape(emit.cast(zero_point, "int32"), shape))


def _called(
    node: OnnxNode, builder: GraphBuilder, op: str, inputs: Sequence[str], output: str = "", **more: Any
) -> str:
    """Adds what an operator of ONNX means; returns the tensor that it writes."""
    written = output or builder.fresh(f"{node.label}/{op}")
    handlers = {**QUANTIZED, **CONVOLUTION, **PRODUCTS}
    name = node.name if output else f"{node.name}/{op}"
    handlers[op](OnnxNode(op, name, tuple(inputs), (written,), _OPSET, more), builder)
    return written


def _dequantized(node: OnnxNode, builder: GraphBuilder, first: int, axis: int) -> str:
    """Real values of an operand that scale and zero point follow; `axis`: of several of these."""
    x, scale, zero_point = node.inputs[first : first + 3]
    if all(len(builder.shape(each)) < 2 for each in (scale, zero_point) if each):
        return _called(node, builder, "DequantizeLinear", (x, scale, zero_point), axis=axis)
    emit = Emitter(node, builder)
    whole = emit.op("Sub", emit.cast(x, "int32"), emit.cast(zero_point, "int32"))
    return emit.op("Mul", emit.cast(whole, np.float32), scale)


def _quantized(node: OnnxNode, builder: GraphBuilder, real: str) -> None:
    _called(node, builder, "QuantizeLinear", (real, *node.inputs[6:8]), node.output)


def _q_linear_conv(node: OnnxNode, builder: GraphBuilder) -> None:
    x, w = _dequantized(node, builder, 0, 0), _dequantized(node, builder, 3, 0)
    bias = node.optional(8)
    if bias:
        emit = Emitter(node, builder)
        scale = emit.op("Mul", emit.reshape(node.input(1), ()), node.input(4))
        bias = emit.op("Mul", emit.cast(bias, np.float32), scale)
    windows = {name: node.attributes[name] for name in ("strides", "pads", "dilations")}
    _quantized(node, builder, _called(node, builder, "Conv", (x, w, bias), **windows, group=node.attributes["group"]))


def _matrix_zero_point(emit: Emitter, zero_point: str, is_left: bool) -> str:
    """Of the left matrix a zero point may stand for each row, of the right one for each column."""
    shape = emit.shape(zero_point)
    if not zero_point or math.prod(shape) == 1:
        return emit.reshape(zero_point, ())
    return emit.reshape(zero_point, (shape[0], 1)) if is_left and len(shape) == 1 else zero_point


def scaled_product(node: OnnxNode, builder: GraphBuilder, known: dict[tuple[str, ...], str]) -> None:
    """An integer product, MatMulInteger or ConvInteger, that is multiplied by both scales, of what these stand for.

    Inputs are those of QLinearMatMul up to its second zero point, where zero points may be absent; `known`: what left
    ones are as floats. Sums of integers in floats are off by a last digit.
    """
    left, of_weights = node.inputs[:3], len(builder.shape(node.input(3))) - 1 if node.op == "MatMulInteger" else 0
    if left not in known:
        known[left] = _dequantized(node, builder, 0, 0)
    operands = (known[left], _dequantized(node, builder, 3, of_weights))
    if node.op == "MatMulInteger":
        _called(node, builder, "MatMul", operands, node.output)
        return
    windows = {name: node.attributes[name] for name in ("strides", "pads", "dilations", "group")}
    _called(node, builder, "Conv", (*operands, ""), node.output, **windows)


def _integer_product(emit: Emitter, a: str, b: str, a_zero: str, b_zero: str, output: str | None) -> str:
    operands = []
    for x, zero_point, is_left in ((a, a_zero, True), (b, b_zero, False)):
        whole = emit.cast(x, "int32")
        if zero_point:
            spread = _matrix_zero_point(emit, zero_point, is_left)
            whole = emit.op("Sub", whole, emit.cast(spread, "int32"))
        operands.append(whole)
    left, right = operands
    return product(emit, left, right, output)


def _matmul_integer(node: OnnxNode, builder: GraphBuilder) -> None:
    zero_points = (node.optional(2), node.optional(3))
    _integer_product(Emitter(node, builder), node.input(0), node.input(1), *zero_points, node.output)


def _q_linear_matmul(node: OnnxNode, builder: GraphBuilder) -> None:
    left = _dequantized(node, builder, 0, max(len(builder.shape(node.input(0))) - 2, 0))
    right = _dequantized(node, builder, 3, len(builder.shape(node.input(3))) - 1)
    _quantized(node, builder, _called(node, builder, "MatMul", (left, right)))


def _conv_integer(node: OnnxNode, builder: GraphBuilder) -> None:
    emit = Emitter(node, builder)
    x, w = (_centred(emit, node.input(index), node.optional(index + 2), 0) for index in (0, 1))
    windows = windows_of(builder.shape(w), node.attributes)
    windowed_product(node, builder, x, w, windows, node.attributes["group"], "", node.output)


EXPANSIONS: Mapping[str, Handler] = {
    "QuantizeLinear": _quantize,
    "DequantizeLinear": _dequantize,
    "QLinearConv": _q_linear_conv,
    "QLinearMatMul": _q_linear_matmul,
    "ConvInteger": _conv_integer,
    "MatMulInteger": _matmul_integer,
}
