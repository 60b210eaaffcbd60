"""Computes quantised operators in NumPy: in int32, which wraps round, and in float32."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from runtime.graph import Array
from runtime.oracle.shared import Compute
from runtime.semantics.shape_functions import Attributes

Arguments = Sequence[Array | None]


def _of(arguments: Arguments, index: int) -> Array:
    """An argument that is there."""
    value = arguments[index]
    assert value is not None
    return value


def _spread(parameter: Array, x: Array, attributes: Attributes) -> Array:
    """A scale or zero point in a shape that broadcasts to x."""
    axis, block = attributes["axis"], attributes["block_size"]
    if block:
        return np.repeat(parameter, block, axis).take(np.arange(x.shape[axis]), axis)
    return parameter.reshape(()) if parameter.size == 1 else _along(parameter, x.ndim - axis - 1)


def _along(parameter: Array, behind: int) -> Array:
    """One number, or one for each index of an axis with so many axes behind it."""
    return parameter.reshape(() if parameter.size == 1 else (-1, *(1,) * behind))


def _saturated(values: Array, dtype: Any) -> Array:
    info = np.iinfo(dtype)
    return np.clip(values, np.float32(info.min), np.float32(info.max)).astype(np.float64).astype(dtype)


def _quantize(arguments: Arguments, attributes: Attributes) -> Array:
    x, scale, zero = _of(arguments, 0), _of(arguments, 1), _optional(arguments, 2)
    steps = np.round(x.astype(np.float32) / _spread(scale, x, attributes).astype(np.float32))
    if zero is not None:
        steps = steps + _spread(zero, x, attributes).astype(np.float32)
    return _saturated(steps, attributes["dtype"])


def _optional(arguments: Arguments, index: int) -> Array | None:
    return arguments[index] if index < len(arguments) else None


def _dequantize(arguments: Arguments, attributes: Attributes) -> Array:
    x, scale, zero = _of(arguments, 0), _of(arguments, 1), _optional(arguments, 2)
    whole = x.astype(np.int32)
    if zero is not None:
        whole = whole - _spread(zero, x, attributes).astype(np.int32)
    return whole.astype(np.float32) * _spread(scale, x, attributes).astype(np.float32)


def _centred(x: Array, zero: Array | None) -> Array:
    """Less the zero point, in int32; as wide integers, whose sums are cut to int32 at the end."""
    whole = x.astype(np.int32)
    return (whole if zero is None else whole - zero.astype(np.int32)).astype(np.int64)


def _sums(x: Array, w: Array, attributes: Attributes) -> Array:
    """Products of windows and filters, added up: (n, f, ...)."""
    rank, pads = x.ndim - 2, attributes["pads"]
    padded = np.pad(x, ((0, 0), (0, 0), *zip(pads[:rank], pads[rank:], strict=True)))
    spans = [step * (size - 1) + 1 for step, size in zip(attributes["dilations"], w.shape[2:], strict=True)]
    windows = sliding_window_view(padded, spans, axis=tuple(range(2, rank + 2)))
    steps = (1, 1, *attributes["strides"], *attributes["dilations"])
    windows = windows[tuple(slice(None, None, step) for step in steps)]
    inner = (1, *range(rank + 2, 2 * rank + 2)), tuple(range(1, rank + 2))
    groups = zip(np.split(windows, attributes["group"], axis=1), np.split(w, attributes["group"], axis=0), strict=True)
    parts = [np.moveaxis(np.tensordot(part, filters, inner), -1, 1) for part, filters in groups]
    return np.concatenate(parts, axis=1).astype(np.int32)


def _requantized(sums: Array, multiplier: Array, zero: Array, dtype: Any) -> Array:
    return _saturated(np.round(sums.astype(np.float32) * multiplier) + zero.astype(np.float32).reshape(()), dtype)


def _conv_integer(arguments: Arguments, attributes: Attributes) -> Array:
    x, w, zero = _of(arguments, 0), _of(arguments, 1), _optional(arguments, 3)
    x_zero = _optional(arguments, 2)
    centred = _centred(x, None if x_zero is None else x_zero.reshape(()))
    return _sums(centred, _centred(w, None if zero is None else _along(zero, w.ndim - 1)), attributes)


def _q_linear_conv(arguments: Arguments, attributes: Attributes) -> Array:
    x, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero = (_of(arguments, index) for index in range(8))
    bias = _optional(arguments, 8)
    sums = _conv_integer([x, w, x_zero, w_zero], attributes)
    if bias is not None:
        sums = sums + bias.astype(np.int32).reshape(-1, *(1,) * (x.ndim - 2))
    multiplier = x_scale.reshape(()) * _along(w_scale, x.ndim - 2) / y_scale.reshape(())
    return _requantized(sums, multiplier, y_zero, attributes["dtype"])


def _of_matrix(parameter: Array | None, is_left: bool) -> Array | None:
    """On the left one number may stand for each row, on the right for each column."""
    if parameter is None or parameter.size == 1:
        return parameter if parameter is None else parameter.reshape(())
    return parameter.reshape(-1, 1) if is_left and parameter.ndim == 1 else parameter


def _matmul_integer(arguments: Arguments, attributes: Attributes) -> Array:
    operands = (
        _centred(_of(arguments, index), _of_matrix(_optional(arguments, index + 2), index == 0)) for index in (0, 1)
    )
    return np.asarray(np.matmul(*operands)).astype(np.int32)


def _q_linear_matmul(arguments: Arguments, attributes: Attributes) -> Array:
    a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero = (_of(arguments, index) for index in range(8))
    left, right = _of_matrix(a_scale, True), _of_matrix(b_scale, False)
    assert left is not None and right is not None
    sums = _matmul_integer([a, b, a_zero, b_zero], attributes)
    return _requantized(sums, left * right / y_scale.reshape(()), y_zero, attributes["dtype"])


COMPUTE: Mapping[str, Compute] = {
    "QuantizeLinear": _quantize,
    "DequantizeLinear": _dequantize,
    "QLinearConv": _q_linear_conv,
    "QLinearMatMul": _q_linear_matmul,
    "ConvInteger": _conv_integer,
    "MatMulInteger": _matmul_integer,
}
