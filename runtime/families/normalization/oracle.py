"""Computes normalisation, softmax, scale and shift in NumPy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from runtime.graph import Array
from runtime.oracle.shared import Compute, first_input
from runtime.semantics.shape_functions import Attributes


def _scale_shift(arguments: Sequence[Array | None], attributes: Attributes) -> Array:
    x, scale, shift = arguments
    assert x is not None and scale is not None and shift is not None
    tail = (1,) * (x.ndim - 2)
    return np.asarray(x * scale.reshape(-1, *tail) + shift.reshape(-1, *tail))


def _layer_normalization(arguments: Sequence[Array | None], attributes: Attributes) -> Array:
    x, axes = first_input(arguments), attributes["axes"]
    shape = [size if axis in axes else 1 for axis, size in enumerate(x.shape)]
    normalised = _normalised(x, axes, attributes["epsilon"], attributes["centered"])
    return _scaled(normalised, arguments, shape)


def _group_normalization(arguments: Sequence[Array | None], attributes: Attributes) -> Array:
    x = first_input(arguments)
    grouped = x.reshape(x.shape[0], attributes["groups"], -1)
    normalised = _normalised(grouped, (2,), attributes["epsilon"], True).reshape(x.shape)
    return _scaled(normalised, arguments, [x.shape[1], *(1,) * (x.ndim - 2)])


def _normalised(x: Array, axes: tuple[int, ...], epsilon: float, centered: bool) -> Array:
    """(x - mean) / sqrt(variance + epsilon); not centred, the mean counts as 0."""
    values = x - x.mean(axis=axes, keepdims=True) if centered else x
    return np.asarray(values / np.sqrt((values * values).mean(axis=axes, keepdims=True) + epsilon))


def _scaled(x: Array, arguments: Sequence[Array | None], shape: Sequence[int]) -> Array:
    """Applies scale and shift, where they are given, in the shape that broadcasts to x."""
    scale, shift = (*arguments, None, None)[1:3]
    x = x if scale is None else x * scale.reshape(shape)
    return x if shift is None else x + shift.reshape(shape)


def _lrn(arguments: Sequence[Array | None], attributes: Attributes) -> Array:
    """Normalises over a centred window of `size` channels, an odd number, as ONNX defines LRN."""
    x, size = first_input(arguments), attributes["size"]
    padded = np.pad(x * x, [(0, 0), (size // 2, size // 2)] + [(0, 0)] * (x.ndim - 2))
    squares = sliding_window_view(padded, size, axis=1).sum(axis=-1)
    return np.asarray(x / (attributes["bias"] + attributes["alpha"] / size * squares) ** attributes["beta"])


def _softmax(arguments: Sequence[Array | None], attributes: Attributes) -> Array:
    x, axis = first_input(arguments), attributes["axis"]
    powers = np.exp(x - x.max(axis=axis, keepdims=True))
    return np.asarray(powers / powers.sum(axis=axis, keepdims=True))


def _log_softmax(arguments: Sequence[Array | None], attributes: Attributes) -> Array:
    x, axis = first_input(arguments), attributes["axis"]
    centred = x - x.max(axis=axis, keepdims=True)
    return np.asarray(centred - np.log(np.exp(centred).sum(axis=axis, keepdims=True)))


COMPUTE: Mapping[str, Compute] = {
    "BatchNormalization": _scale_shift,
    "LayerNormalization": _layer_normalization,
    "GroupNormalization": _group_normalization,
    "LRN": _lrn,
    "Softmax": _softmax,
    "LogSoftmax": _log_softmax,
}
