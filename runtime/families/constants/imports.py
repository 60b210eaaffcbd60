"""Operators that only shape arithmetic uses: evaluated at import, and refused where an input is not constant."""

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from runtime.errors import ModelError, UnsupportedError
from runtime.graph import Array
from runtime.importers.builder import GraphBuilder, check_size
from runtime.importers.onnx_node import OnnxNode
from runtime.importers.registry import Handler
from runtime.importers.tensors import dense_tensor, tensor_value

Fold = Callable[[OnnxNode, list[Array]], Any]
_CONSTANT_FORMS = ("value", "sparse_value", "value_float", "value_floats", "value_int", "value_ints")


def _constant(node: OnnxNode, builder: GraphBuilder) -> None:
    form = next((name for name in _CONSTANT_FORMS if node.has(name)), None)
    if form is None:
        raise node.unsupported("the attributes", sorted(node.attributes), " or ".join(_CONSTANT_FORMS))
    node.read.add(form)
    value = node.attributes[form]
    if form in ("value", "sparse_value"):
        _result(node, builder, tensor_value(dense_tensor(value) if form == "sparse_value" else value, node.output))
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


def _range(node: OnnxNode, arguments: list[Array]) -> Array:
    start, limit, step = (argument.reshape(-1)[0] for argument in arguments)
    if step == 0:
        raise ModelError(f"{node}: the step is 0")
    check_size(node, (max(0, math.ceil((limit - start) / step)),))
    return np.arange(start, limit, step, dtype=arguments[0].dtype)


HANDLERS: Mapping[str, Handler] = {
    "Constant": _constant,
    "ConstantOfShape": _folded(_constant_of_shape),
    "Shape": _shape,
    "Size": _size,
    "Range": _folded(_range),
}
