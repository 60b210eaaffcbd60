"""Normalisations: rows, and what NumPy computes."""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from runtime.errors import ModelError
from runtime.formats import rewriting
from runtime.graph import Array
from runtime.operators.row import FIXED, AttributeKind, Operator, transposable
from runtime.oracle.shared import Compute, first_input
from runtime.semantics.shape_functions import Attributes, Shape, same, same_with_axis, shape_list


def scale_shift(shapes: Sequence[Shape], attributes: Attributes) -> Shape:
    """The first input's, whose channels (axis 1) have a scale and a shift."""
    x = shapes[0]
    if len(x) < 2 or any(shape != (x[1],) for shape in shapes[1:]):
        raise ModelError(f"scale and shift of shapes {shape_list(shapes[1:])} do not fit an input of shape {x}")
    return x


def layer_normalization(shapes: Sequence[Shape], attributes: Attributes) -> Shape:
    """The first input's, normalised along its last axes or an image's channels."""
    x, axes = shapes[0], attributes["axes"]
    is_last = min(axes, default=-1) >= 0 and axes == tuple(range(len(x) - len(axes), len(x)))
    if not is_last and not (axes == (1,) and len(x) == 4):
        raise ModelError(f"axes {axes} of an input of shape {x}; the last ones, or an image's channels, are needed")
    _fits_normalised(shapes, tuple(x[axis] for axis in axes))
    return x


def group_normalization(shapes: Sequence[Shape], attributes: Attributes) -> Shape:
    """The first input's, normalised by groups of channels."""
    x, groups = shapes[0], attributes["groups"]
    if len(x) < 2 or x[1] % groups:
        raise ModelError(f"an input of shape {x} has no channels that make {groups} groups")
    _fits_normalised(shapes, x[1:2])
    return x


def _fits_normalised(shapes: Sequence[Shape], wanted: Shape) -> None:
    if any(shape not in (wanted, ()) for shape in shapes[1:]):
        raise ModelError(f"scale and shift of shapes {shape_list(shapes[1:])} are not of shape {wanted}")


_LRN: Mapping[str, AttributeKind] = {"alpha": "float", "beta": "float", "bias": "float", "size": "count"}
_LAYER_NORMALIZATION: Mapping[str, AttributeKind] = {"axes": "ints", "epsilon": "float", "centered": "bool"}
_GROUP_NORMALIZATION: Mapping[str, AttributeKind] = {"groups": "count", "epsilon": "float"}


OPERATORS = {
    "BatchNormalization": Operator((3, 3), scale_shift, fusible=True, format=FIXED),
    "LRN": Operator((1, 1), same, _LRN, format=FIXED),
    **{
        op: Operator((1, 1), same_with_axis, {"axis": "int"}, format=transposable(rewriting.on_axis))
        for op in ("Softmax", "LogSoftmax")
    },
    "LayerNormalization": Operator(
        (1, 3), layer_normalization, _LAYER_NORMALIZATION, fusible=True, format=transposable(rewriting.normalized)
    ),
    "GroupNormalization": Operator((1, 3), group_normalization, _GROUP_NORMALIZATION, fusible=True, format=FIXED),
}


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
