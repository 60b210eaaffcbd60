"""Operators that only shape arithmetic uses: evaluated at import, and refused where an input is not constant."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import onnx

from runtime.errors import ModelError, UnsupportedError
from runtime.graph import Array
from runtime.importers.builder import GraphBuilder, check_size
from runtime.importers.normalization import normalized_axis
from runtime.importers.onnx_node import OnnxNode
from runtime.importers.registry import Handler
from runtime.importers.tensors import tensor_value

Fold = Callable[[OnnxNode, list[Array]], Any]
_NUMBERS = set(onnx.TensorProto.DataType.values()) - {onnx.TensorProto.UNDEFINED, onnx.TensorProto.STRING}
_WIDE_FLOATS = (np.float16, np.float32, np.float64)
_CONSTANT_FORMS = ("value", "value_float", "value_floats", "value_int", "value_ints")


def _constant(node: OnnxNode, builder: GraphBuilder) -> None:
    form = next((name for name in _CONSTANT_FORMS if node.has(name)), None)
    if form is None:
        raise node.unsupported("the attributes", sorted(node.attributes), " or ".join(_CONSTANT_FORMS))
    node.read.add(form)
    value = node.attributes[form]
    if form == "value":
        _result(node, builder, tensor_value(value, node.output))
        return
    _result(node, builder, np.asarray(value, np.float32 if "float" in form else np.int64))


def _result(node: OnnxNode, builder: GraphBuilder, value: Array) -> None:
    builder.folded.append(node.name)
    builder.add_constant(node.output, value)


def _shape(node: OnnxNode, builder: GraphBuilder) -> None:
    shape = builder.shape(node.input(0))
    start, end = node.integer("start", 0), node.integer("end", len(shape))
    _result(node, builder, np.asarray(shape[start:end], np.int64))


def _size(node: OnnxNode, builder: GraphBuilder) -> None:
    _result(node, builder, np.asarray(math.prod(builder.shape(node.input(0))), np.int64))


def _folded(function: Fold) -> Handler:
    """Makes the handler of an operator that is evaluated at import; it refuses inputs that are not constant."""

    def handle(node: OnnxNode, builder: GraphBuilder) -> None:
        arguments = []
        for name in filter(None, node.inputs):
            value = builder.constant(name)
            if value is None:
                raise UnsupportedError(f"{node}: input '{name}' is computed at run time; supported: constants")
            arguments.append(value)
        try:
            value = np.asarray(function(node, arguments))
        except (ValueError, IndexError, TypeError) as error:
            raise ModelError(f"{node}: its inputs do not fit: {str(error).splitlines()[0]}") from None
        _result(node, builder, value)

    return handle


def _constant_of_shape(node: OnnxNode, arguments: list[Array]) -> Array:
    node.read.add("value")
    shape = tuple(int(size) for size in arguments[0])
    check_size(node, shape)
    value = node.attributes.get("value")
    fill = np.zeros(1, np.float32) if value is None else tensor_value(value, node.output)
    return np.full(shape, fill.reshape(-1)[0], fill.dtype)


def _gather(node: OnnxNode, arguments: list[Array]) -> Array:
    data, indices = arguments
    return np.take(data, indices, axis=normalized_axis(node, node.integer("axis", 0), data.ndim))


def _cast(node: OnnxNode, builder: GraphBuilder) -> None:
    """At run time a cast to a wide floating-point type is the identity, since the graph computes in float32."""
    node.integer("saturate", 1)
    target = node.integer("to", 0)
    if target not in _NUMBERS:
        raise node.unsupported("to", target, "a numeric element type")
    kind = np.dtype(onnx.helper.tensor_dtype_to_np_dtype(target))
    value = builder.constant(node.input(0))
    if value is not None:
        _result(node, builder, value.astype(kind))
        return
    if kind not in _WIDE_FLOATS:
        raise node.unsupported("to", kind.name, "float16, float32 and float64, for a tensor computed at run time")
    builder.emit(node, "Identity", [node.input(0)], {}, node.output)


def _range(node: OnnxNode, arguments: list[Array]) -> Array:
    start, limit, step = (argument.reshape(-1)[0] for argument in arguments)
    if step == 0:
        raise ModelError(f"{node}: the step is 0")
    check_size(node, (max(0, math.ceil((limit - start) / step)),))
    return np.arange(start, limit, step, dtype=arguments[0].dtype)


def _expand_constant(node: OnnxNode, arguments: list[Array]) -> Array:
    shape = np.broadcast_shapes(arguments[0].shape, tuple(int(size) for size in arguments[1]))
    check_size(node, shape)
    return np.ascontiguousarray(np.broadcast_to(arguments[0], shape))


def _expand(node: OnnxNode, builder: GraphBuilder) -> None:
    shape, target_shape = builder.shape(node.input(0)), builder.integers(node, 1, "shape")
    if builder.constant(node.input(0)) is not None:
        _folded(_expand_constant)(node, builder)
        return
    if len(target_shape) > len(shape) or any(
        n not in (1, size) for n, size in zip(target_shape[::-1], shape[::-1], strict=False)
    ):
        raise node.unsupported("shape", list(target_shape), f"the input's own shape {shape}, or a constant input")
    builder.emit(node, "Identity", [node.input(0)], {}, node.output)


def _tile(node: OnnxNode, arguments: list[Array]) -> Array:
    check_size(node, [size * int(n) for size, n in zip(arguments[0].shape, arguments[1], strict=True)])
    return np.tile(arguments[0], arguments[1])


def _reduce_product(node: OnnxNode, arguments: list[Array]) -> Array:
    axes = arguments[1] if len(arguments) > 1 else node.integers("axes", range(arguments[0].ndim))
    keep = bool(node.integer("keepdims", 1))
    return np.asarray(np.prod(arguments[0], axis=tuple(int(axis) for axis in axes), keepdims=keep))


def _modulo(node: OnnxNode, arguments: list[Array]) -> Array:
    return np.asarray(np.fmod(*arguments) if node.integer("fmod", 0) else np.mod(*arguments))


def _plain(function: Callable[..., Any]) -> Handler:
    return _folded(lambda node, arguments: function(*arguments))


OPERATORS: Mapping[str, Handler] = {
    "Constant": _constant,
    "ConstantOfShape": _folded(_constant_of_shape),
    "Shape": _shape,
    "Size": _size,
    "Gather": _folded(_gather),
    "Cast": _cast,
    "Range": _folded(_range),
    "Expand": _expand,
    "Tile": _folded(_tile),
    "ReduceProd": _folded(_reduce_product),
    "Mod": _folded(_modulo),
    "Where": _plain(np.where),
    "Equal": _plain(np.equal),
    "Less": _plain(np.less),
    "LessOrEqual": _plain(np.less_equal),
    "Greater": _plain(np.greater),
    "GreaterOrEqual": _plain(np.greater_equal),
    "And": _plain(np.logical_and),
    "Or": _plain(np.logical_or),
    "Not": _plain(np.logical_not),
    "Round": _plain(np.round),
}
