"""Values of ONNX tensors."""

import math
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

from runtime.errors import ModelError, UnsupportedError
from runtime.graph import Array
from runtime.importers.external_data import array_of, with_data
from runtime.types import ELEMENT_TYPES

LARGEST_BYTES = 1 << 31  # of a constant


def tensor_value(tensor: onnx.TensorProto, name: str) -> Array:
    """Value of a tensor in the model or a file beside it; ModelError where its data does not fit its shape."""
    if not isinstance(tensor, onnx.TensorProto):
        raise ModelError(f"tensor '{name}': the value is no tensor")
    try:
        value = array_of(tensor, name)
        value = np.asarray(numpy_helper.to_array(with_data(tensor, name))) if value is None else value
    except (ValueError, TypeError, KeyError) as error:
        raise ModelError(f"tensor '{name}': its data does not fit its shape and type: {_first_line(error)}") from None
    if value.dtype.name not in ELEMENT_TYPES:
        raise UnsupportedError(f"tensor '{name}' holds {value.dtype}; supported: {', '.join(ELEMENT_TYPES)}")
    return value


def constant_tensors(graph: onnx.GraphProto) -> dict[str, onnx.TensorProto]:
    """The constants of a graph or body by name, those of few elements (`sparse_initializer`) written out."""
    dense = {tensor.name: tensor for tensor in graph.initializer}
    return dense | {tensor.values.name: dense_tensor(tensor) for tensor in graph.sparse_initializer}


def dense_tensor(sparse: onnx.SparseTensorProto) -> onnx.TensorProto:
    """All elements of a sparse tensor; ModelError where its places do not fit its shape."""
    name, shape = sparse.values.name, tuple(sparse.dims)
    values, places = tensor_value(sparse.values, name), tensor_value(sparse.indices, name).astype(np.int64)
    if min(shape, default=1) < 1 or math.prod(shape) * values.itemsize > LARGEST_BYTES:
        raise ModelError(
            f"tensor '{name}': a sparse tensor of shape {shape}; up to {LARGEST_BYTES} bytes are supported"
        )
    try:
        flat = np.ravel_multi_index(tuple(places.T), shape) if places.ndim == 2 else places
        dense = np.zeros(math.prod(shape), values.dtype)
        if flat.min(initial=0) < 0:
            raise ValueError("a place is below 0")
        dense[flat] = values
    except (ValueError, IndexError, TypeError) as error:
        raise ModelError(f"tensor '{name}': its elements do not fit shape {shape}: {_first_line(error)}") from None
    return numpy_helper.from_array(dense.reshape(shape), name)


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]


def is_float(dtype: np.dtype[Any]) -> bool:
    """Whether an element type is a floating-point one that the graph computes in float32."""
    return dtype.name in ("float16", "bfloat16", "float32", "float64")
