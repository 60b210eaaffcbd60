"""The generic operators (runtime/semantics/generic.py) in NumPy: what farmrt's strided steps must agree with."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import ml_dtypes
import numpy as np
from numpy.lib.stride_tricks import as_strided

from runtime.errors import ModelError
from runtime.graph import Array
from runtime.semantics.shape_functions import Attributes
from runtime.semantics.unary import sigmoid

_BFLOAT16 = np.dtype(ml_dtypes.bfloat16)


def _is_real(x: Array) -> bool:
    return x.dtype.kind == "f" or x.dtype == _BFLOAT16


def wide(x: Array) -> Array:
    """Floats in double precision, integers in 64 bits."""
    if _is_real(x):
        return x.astype(np.float64)
    return x if x.dtype == np.uint64 else x.astype(np.int64)


def _divide(a: Array, b: Array) -> Array:
    if _is_real(a):
        return np.asarray(np.divide(a, b))
    if a.dtype == np.uint64:
        return np.asarray(np.floor_divide(a, b))
    quotient = np.floor_divide(np.abs(a), np.abs(b))
    return np.asarray(np.sign(a) * np.sign(b) * quotient)


def _power(base: Array, exponent: Array) -> Array:
    if _is_real(base) or _is_real(exponent):
        return np.asarray(np.power(base.astype(np.float64), exponent.astype(np.float64)))
    negative = exponent < 0
    result = np.power(base, np.where(negative, 0, exponent))
    return np.where(negative, np.where(np.abs(base) == 1, np.power(base, np.abs(exponent) % 2), 0), result)


_FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "cast": lambda x: x,
    "neg": np.negative,
    "abs": np.abs,
    "sign": np.sign,
    "ceil": np.ceil,
    "floor": np.floor,
    "round": np.round,
    "exp": np.exp,
    "log": np.log,
    "sqrt": np.sqrt,
    "reciprocal": np.reciprocal,
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "tanh": np.tanh,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
    "erf": np.vectorize(math.erf, otypes=[np.float64]),
    "sigmoid": sigmoid,
    "is_nan": np.isnan,
    "not": np.logical_not,
    "bit_not": np.invert,
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": _divide,
    "mod": np.mod,
    "fmod": np.fmod,
    "pow": _power,
    "max": np.maximum,
    "min": np.minimum,
    "and": np.logical_and,
    "or": np.logical_or,
    "xor": np.logical_xor,
    "bit_and": np.bitwise_and,
    "bit_or": np.bitwise_or,
    "bit_xor": np.bitwise_xor,
    "shift_left": np.left_shift,
    "shift_right": np.right_shift,
    "equal": np.equal,
    "less": np.less,
    "less_or_equal": np.less_equal,
    "greater": np.greater,
    "greater_or_equal": np.greater_equal,
    "where": np.where,
}


def _elementwise(arguments: Sequence[Array], attributes: Attributes) -> Array:
    function = attributes["function"]
    inputs = [wide(x) for x in arguments]
    if any(_is_real(x) for x in arguments) and function not in ("where", "pow"):
        inputs = [x.astype(np.float64) for x in inputs]
    if function == "is_inf":
        low, high = (np.isinf(inputs[0]) & side for side in (inputs[0] < 0, inputs[0] > 0))
        value = (low & bool(attributes["alpha"])) | (high & bool(attributes["beta"]))
    elif function == "fill":
        value = np.full(arguments[0].shape, attributes["alpha"])
    else:
        value = np.asarray(_FUNCTIONS[function](*inputs))
    return value.astype(np.dtype(attributes["dtype"]))


def _view(x: Array, shape: Sequence[int], strides: Sequence[int], offset: int = 0) -> Array:
    dense = np.ascontiguousarray(x).reshape(-1)
    return as_strided(dense[offset:], tuple(shape), tuple(step * x.itemsize for step in strides), writeable=False)


def _strided(arguments: Sequence[Array], attributes: Attributes) -> Array:
    return _view(arguments[0], attributes["shape"], attributes["strides"], attributes["offset"]).copy()


def _embedding(arguments: Sequence[Array], attributes: Attributes) -> Array:
    (x,) = arguments
    out = np.full(attributes["shape"], attributes["value"]).astype(x.dtype)
    places = zip(attributes["starts"], attributes["steps"], x.shape, strict=True)
    out[tuple(slice(start, start + (size - 1) * step + 1, step) for start, step, size in places)] = x
    return out


def _join(arguments: Sequence[Array], attributes: Attributes) -> Array:
    return np.concatenate(arguments, axis=attributes["axis"])


def _position(rows: Array, function: str) -> Array:
    """Where the extreme of each row stands."""
    choose = np.argmax if function.startswith("arg_max") else np.argmin
    if not function.endswith("_last"):
        return np.asarray(choose(rows, axis=-1))
    return np.asarray(rows.shape[-1] - 1 - choose(rows[..., ::-1], axis=-1))


_REDUCTIONS: Mapping[str, Callable[..., Any]] = {
    "sum": np.sum,
    "mean": np.mean,
    "max": np.max,
    "min": np.min,
    "prod": np.prod,
}


def _reduction(arguments: Sequence[Array], attributes: Attributes) -> Array:
    shape, function = attributes["shape"], attributes["function"]
    view = _view(arguments[0], (*shape, *attributes["window"]), attributes["strides"], attributes["offset"])
    rows = wide(view.reshape(*shape, -1))
    value = _REDUCTIONS[function](rows, axis=-1) if function in _REDUCTIONS else _position(rows, function)
    return np.asarray(value).astype(np.dtype(attributes["dtype"]))


def _product(arguments: Sequence[Array], attributes: Attributes) -> Array:
    shape, summed = attributes["shape"], attributes["summed"]
    loops = (*shape, *summed)
    a, b = (
        _view(wide(x), loops, attributes[name]) for x, name in zip(arguments, ("a_strides", "b_strides"), strict=True)
    )
    labels = list(range(len(loops)))
    return np.asarray(np.einsum(a, labels, b, labels, labels[: len(shape)])).astype(arguments[0].dtype)


def _cumulation(arguments: Sequence[Array], attributes: Attributes) -> Array:
    (x,), axis = arguments, attributes["axis"]
    accumulate = np.cumsum if attributes["function"] == "sum" else np.cumprod
    values = np.flip(x, axis) if attributes["reverse"] else x
    values = wide(values)
    if attributes["exclusive"]:
        first = np.full_like(np.take(values, [0], axis), 0 if attributes["function"] == "sum" else 1)
        values = np.concatenate([first, np.delete(values, -1, axis)], axis)
    out = accumulate(values, axis=axis)
    return np.ascontiguousarray(np.flip(out, axis) if attributes["reverse"] else out).astype(x.dtype)


def _places(indices: Array, attributes: Attributes) -> Array:
    """Element of x for each position of the loops; ModelError for an index that is out of range."""
    shape, limits = attributes["shape"], attributes["limits"]
    place = sum(
        (np.arange(size).reshape([-1 if at == axis else 1 for at in range(len(shape))]) * step)
        for axis, (size, step) in enumerate(zip(shape, attributes["strides"], strict=True))
    )
    for number, (limit, step) in enumerate(zip(limits, attributes["limit_strides"], strict=True)):
        start = number * attributes["component_stride"]
        chosen = _view(indices, shape, attributes["index_strides"], start).astype(np.int64)
        if ((chosen < -limit) | (chosen >= limit)).any():
            raise ModelError(f"an index is not within an axis of {limit}")
        place = place + np.where(chosen < 0, chosen + limit, chosen) * step
    return np.broadcast_to(np.asarray(place), shape)


def _indexed_read(arguments: Sequence[Array], attributes: Attributes) -> Array:
    x, indices = arguments
    return np.ascontiguousarray(x).reshape(-1)[_places(indices, attributes)]


_UPDATES: Mapping[str, Any] = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}


def _indexed_write(arguments: Sequence[Array], attributes: Attributes) -> Array:
    x, indices, updates = arguments
    out = np.array(x).reshape(-1)
    places, values = _places(indices, attributes).reshape(-1), updates.reshape(-1)
    if attributes["function"] == "none":
        out[places] = values
    else:
        _UPDATES[attributes["function"]].at(out, places, values)
    return out.reshape(x.shape)


COMPUTE_GENERIC: Mapping[str, Callable[[Sequence[Array], Attributes], Array]] = {
    "Elementwise": _elementwise,
    "Strided": _strided,
    "Embedding": _embedding,
    "Join": _join,
    "StridedReduction": _reduction,
    "StridedProduct": _product,
    "Cumulation": _cumulation,
    "IndexedRead": _indexed_read,
    "IndexedWrite": _indexed_write,
}
