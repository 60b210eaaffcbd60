"""Shapes of the graph's inputs: what the model declares against what the deployment file gives."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
import onnx

from runtime.errors import ModelError, UnsupportedError
from runtime.types import ELEMENT_TYPES

Declared = tuple[int | str, ...]


def bind_inputs(
    declared: Sequence[onnx.ValueInfoProto],
    given: Mapping[str, tuple[int, ...]],
    computed: Collection[str],
    needed: Collection[str],
) -> dict[str, tuple[int, ...]]:
    """Shape of each input that is needed or given, in the model's order.

    `computed`: the tensors that nodes write, which may be given as inputs too. A symbolic dimension must have one
    value wherever it stands. ModelError naming tensor and both shapes where they contradict.
    """
    by_name = {value.name: value for value in declared}
    for name, shape in given.items():
        if name not in by_name and name not in computed:
            raise ModelError(f"input '{name}' is not in the model; its inputs: {', '.join(by_name) or 'none'}")
        if min(shape, default=1) < 1:
            raise ModelError(f"input '{name}': shape {shape} has a size below 1")
    symbols: dict[str, tuple[int, str]] = {}
    shapes = {}
    for name, value in by_name.items():
        if name in needed or name in given:
            shapes[name] = _bound(name, _declared_shape(value), given.get(name), symbols)
    return shapes | {name: shape for name, shape in given.items() if name not in shapes}


def _declared_shape(value: onnx.ValueInfoProto) -> Declared | None:
    """Returns each dimension as a number or a symbol (empty where it has no name); None where there is no shape."""
    if not value.type.HasField("tensor_type"):
        raise UnsupportedError(f"input '{value.name}' is no tensor; supported: tensors")
    tensor = value.type.tensor_type
    if not tensor.HasField("shape"):
        return None
    return tuple(dim.dim_value if dim.dim_value > 0 else dim.dim_param for dim in tensor.shape.dim)


def input_dtype(value: onnx.ValueInfoProto) -> np.dtype[Any]:
    """NumPy type of a declared input; UnsupportedError for one that no runtime has."""
    number = value.type.tensor_type.elem_type
    dtype = element_dtype(number)
    if dtype is None:
        names = {number: name for name, number in onnx.TensorProto.DataType.items()}
        supported = ", ".join(ELEMENT_TYPES)
        raise UnsupportedError(f"input '{value.name}' holds {names.get(number, number)}; supported: {supported}")
    return dtype


def element_dtype(number: int) -> np.dtype[Any] | None:
    """NumPy type of an ONNX element type; None where the graph has no such type."""
    if number in (onnx.TensorProto.UNDEFINED, onnx.TensorProto.STRING):
        return None
    try:
        dtype = np.dtype(onnx.helper.tensor_dtype_to_np_dtype(number))
    except (KeyError, TypeError):
        return None
    return dtype if dtype.name in ELEMENT_TYPES else None


def _bound(
    name: str, declared: Declared | None, given: tuple[int, ...] | None, symbols: dict[str, tuple[int, str]]
) -> tuple[int, ...]:
    shown = "?" if declared is None else f"({', '.join(str(size or '?') for size in declared)})"
    if given is None:
        if declared is None or not all(isinstance(size, int) for size in declared):
            raise ModelError(f"input '{name}' has the symbolic shape {shown}; give its shape")
        given = tuple(size for size in declared if isinstance(size, int))
    if declared is None:
        return given
    fits = len(declared) == len(given) and all(
        size == wanted for size, wanted in zip(declared, given, strict=True) if isinstance(size, int)
    )
    if not fits:
        raise ModelError(f"input '{name}': the given shape {given} contradicts the model's {shown}")
    for symbol, size in zip(declared, given, strict=True):
        if isinstance(symbol, str) and symbol:
            bound, first = symbols.setdefault(symbol, (size, name))
            if bound != size:
                raise ModelError(
                    f"input '{name}': shape {given} makes {symbol} {size}, but input '{first}' makes it {bound}"
                )
    return given
