"""Values of ONNX tensors."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

from runtime.errors import ModelError, UnsupportedError
from runtime.graph import Array
from runtime.types import ELEMENT_TYPES


def tensor_value(tensor: onnx.TensorProto, name: str) -> Array:
    """Value of a tensor stored in the model; ModelError where its data does not fit its shape."""
    if not isinstance(tensor, onnx.TensorProto):
        raise ModelError(f"tensor '{name}': the value is no tensor")
    if tensor.data_location == onnx.TensorProto.EXTERNAL:
        raise ModelError(f"tensor '{name}': its data lies in another file, which was not loaded")
    try:
        value = np.asarray(numpy_helper.to_array(tensor))
    except (ValueError, TypeError, KeyError) as error:
        raise ModelError(f"tensor '{name}': its data does not fit its shape and type: {_first_line(error)}") from None
    if value.dtype.name not in ELEMENT_TYPES:
        raise UnsupportedError(f"tensor '{name}' holds {value.dtype}; supported: {', '.join(ELEMENT_TYPES)}")
    return value


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]


def is_float(dtype: np.dtype[Any]) -> bool:
    """Whether an element type is a floating-point one that the graph computes in float32."""
    return dtype.name in ("float16", "bfloat16", "float32", "float64")
