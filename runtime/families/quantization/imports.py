"""Quantised operators of ONNX; what is known of their scales and zero points is checked, and told of the tensors."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from runtime.errors import ModelError
from runtime.importers.builder import GraphBuilder
from runtime.importers.inputs import element_dtype
from runtime.importers.onnx_node import OnnxNode, normalized_axis
from runtime.importers.registry import Handler
from runtime.importers.windows import read_windows
from runtime.semantics.quantization import Quantization


def _check_scale(node: OnnxNode, builder: GraphBuilder, index: int) -> None:
    name = node.input(index)
    value = builder.constant(name)
    if builder.dtype(name).kind != "f":
        raise ModelError(f"{node}: scale '{name}' holds {builder.dtype(name)}, not floats")
    bad = [] if value is None else value[~(np.isfinite(value) & (value > 0))].tolist()
    if bad:
        raise ModelError(f"{node}: scale '{name}' holds {bad[0]:g}; a positive number is needed, so quantise it again")


def _check_integers(node: OnnxNode, builder: GraphBuilder, tensor: str, zero_point: str) -> None:
    """A tensor and its zero point hold integers of one type."""
    kind = builder.dtype(tensor)
    if kind.kind not in "iu":
        raise ModelError(f"{node}: '{tensor}' holds {kind}, not integers")
    if zero_point and builder.dtype(zero_point) != kind:
        raise ModelError(f"{node}: zero point '{zero_point}' holds {builder.dtype(zero_point)}, '{tensor}' {kind}")


def _known(
    builder: GraphBuilder, tensor: str, scale: str, zero_point: str, axis: int, fixed_point: bool = False
) -> Quantization | None:
    """What the integers of a tensor stand for, where scale and zero point are constant; `axis` is that of several."""
    scales, zeros = builder.constant(scale), builder.constant(zero_point)
    if scales is None or (zero_point and zeros is None):
        return None
    count = max(scales.size, 0 if zeros is None else zeros.size)
    if count > 1 and builder.shape(tensor)[axis] != count:
        return None  # one for each place of several axes
    numbers = tuple(np.broadcast_to(scales.reshape(-1), (count,)).tolist())
    whole = (0,) * count if zeros is None else tuple(np.broadcast_to(zeros.reshape(-1), (count,)).tolist())
    found = Quantization(numbers, whole, axis if count > 1 else None, builder.dtype(tensor).name, fixed_point)
    written = builder.graph.tensors[tensor].quantization
    return written if written == dataclasses.replace(found, fixed_point=True) else found


def _is_fixed_point(builder: GraphBuilder, tensor: str) -> bool:
    """Whether the source computes in integers what is quantised; it may be moved before that."""
    if builder.in_floats is None:
        return False
    while node := builder.graph.producer(tensor):
        if tensor in builder.in_floats:
            return False
        if node.op not in ("Reshape", "Transpose"):
            return True
        tensor = node.inputs[0]
    return False


def _parameters(node: OnnxNode, builder: GraphBuilder) -> dict[str, int]:
    """Axis and block size, of scales that are several."""
    axis, block = node.integer("axis", 1), node.integer("block_size", 0)
    several = block or any(builder.graph.tensors[name].size != 1 for name in node.inputs[1:3] if name)
    rank = len(builder.shape(node.input(0)))
    return {"axis": normalized_axis(node, axis, rank) if several else 0, "block_size": block}


def _target(node: OnnxNode, builder: GraphBuilder, zero_point: str) -> np.dtype[Any]:
    wanted = node.integer("output_dtype", 0)
    if zero_point:
        dtype: np.dtype[Any] | None = builder.dtype(zero_point)
    else:
        dtype = element_dtype(wanted) if wanted else np.dtype(np.uint8)
    if zero_point and dtype in (np.float16, np.float32, np.float64):
        raise ModelError(f"{node}: the type of zero point {zero_point!r} is {dtype.name!r}, not one of integers")
    if dtype is None or dtype.kind not in "iu":
        name, found = (f"the type of zero point {zero_point!r}", str(dtype)) if zero_point else ("output_dtype", wanted)
        raise node.unsupported(name, found, "integers of 8, 16 and 32 bits")
    return dtype


def _quantize(node: OnnxNode, builder: GraphBuilder) -> None:
    scale, zero_point = node.input(1), node.optional(2)
    node.integer("saturate", 1)
    node.integer("precision", 0)
    _check_scale(node, builder, 1)
    dtype, attributes = _target(node, builder, zero_point), _parameters(node, builder)
    builder.emit(node, node.op, node.inputs, {**attributes, "dtype": dtype.name}, node.output)
    if not attributes["block_size"]:
        fixed = _is_fixed_point(builder, node.input(0))
        builder.describe(node.output, _known(builder, node.output, scale, zero_point, attributes["axis"], fixed))


def _dequantize(node: OnnxNode, builder: GraphBuilder) -> None:
    x, scale, zero_point = node.input(0), node.input(1), node.optional(2)
    node.integer("output_dtype", 0)
    _check_scale(node, builder, 1)
    _check_integers(node, builder, x, zero_point)
    attributes = _parameters(node, builder)
    builder.emit(node, node.op, node.inputs, {**attributes, "dtype": "float32"}, node.output)
    if not attributes["block_size"]:
        known = _known(builder, x, scale, zero_point, attributes["axis"])
        builder.describe(x, known)
        builder.describe(node.output, known)


def _windows(node: OnnxNode, builder: GraphBuilder, x: str, w: str) -> dict[str, Any]:
    kernel = builder.shape(w)[2:]
    if node.integers("kernel_shape", kernel) != kernel:
        raise ModelError(f"{node}: kernel_shape {node.integers('kernel_shape')} differs from the filter's {kernel}")
    windows = read_windows(node, builder.shape(x)[2:], kernel)
    attributes = {name: getattr(windows, name) for name in ("strides", "pads", "dilations")}
    return {**attributes, "group": node.integer("group", 1)}


def _q_linear(node: OnnxNode, builder: GraphBuilder, attributes: Mapping[str, Any], axes: Sequence[int]) -> None:
    """Adds a product with scales; `axes`: of several scales of the two operands."""
    for index in (1, 4, 6):
        _check_scale(node, builder, index)
    y_zero = node.input(7)
    for index in (0, 3):
        _check_integers(node, builder, node.input(index), node.input(index + 2))
    _check_integers(node, builder, y_zero, "")
    dtype = builder.dtype(y_zero)
    builder.emit(node, node.op, node.inputs, {**attributes, "dtype": dtype.name}, node.output)
    for index, axis in zip((0, 3), axes, strict=True):
        x, scale, zero_point = node.inputs[index : index + 3]
        builder.describe(x, _known(builder, x, scale, zero_point, axis))
    builder.describe(node.output, _known(builder, node.output, node.input(6), y_zero, 0))


def _q_linear_conv(node: OnnxNode, builder: GraphBuilder) -> None:
    _q_linear(node, builder, _windows(node, builder, node.input(0), node.input(3)), (0, 0))


def _q_linear_matmul(node: OnnxNode, builder: GraphBuilder) -> None:
    ranks = [len(builder.shape(node.input(index))) for index in (0, 3)]
    _q_linear(node, builder, {}, (max(ranks[0] - 2, 0), max(ranks[1] - 1, 0)))


def _integer(node: OnnxNode, builder: GraphBuilder, attributes: Mapping[str, Any]) -> None:
    """Adds a product without scales."""
    for index in (0, 1):
        _check_integers(node, builder, node.input(index), node.optional(index + 2))
    builder.emit(node, node.op, node.inputs, {**attributes, "dtype": "int32"}, node.output)


def _conv_integer(node: OnnxNode, builder: GraphBuilder) -> None:
    _integer(node, builder, _windows(node, builder, node.input(0), node.input(1)))


HANDLERS: Mapping[str, Handler] = {
    "QuantizeLinear": _quantize,
    "DequantizeLinear": _dequantize,
    "QLinearConv": _q_linear_conv,
    "QLinearMatMul": _q_linear_matmul,
    "ConvInteger": _conv_integer,
    "MatMulInteger": lambda node, builder: _integer(node, builder, {}),
}
