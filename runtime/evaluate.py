"""Executes a graph operator by operator in NumPy: the oracle for passes, lowering and kernels.

Written for clarity. Values keep the element type of the inputs, so a caller that wants more digits gives float64.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from runtime.errors import ModelError
from runtime.evaluate_attention import compute_attention
from runtime.evaluate_generic import COMPUTE_GENERIC
from runtime.evaluate_recurrence import COMPUTE_RECURRENT
from runtime.evaluate_transposed_convolution import transposed_convolution
from runtime.graph import Array, Graph
from runtime.nearest import nearest_indices
from runtime.operators import ACTIVATION_OF
from runtime.shape_functions import Attributes, Shape

Compute = Callable[[Sequence[Array | None], Attributes], Array]


CUSTOM: dict[str, Compute] = {}  # users' operators, added by runtime/custom/registry.py


def evaluate(graph: Graph, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """Computes all tensors of a graph and returns them by name, constants included.

    Inputs have the graph's origin shapes; raises ModelError where one is missing or has another shape.
    """
    values: dict[str, Array] = dict(graph.constants)
    for name in graph.inputs:
        if name not in inputs or inputs[name].shape != graph.shape(name):
            given = inputs[name].shape if name in inputs else "missing"
            raise ModelError(f"input '{name}' is {given}; the graph reads shape {graph.shape(name)}")
        values[name] = inputs[name]
    for node in graph.nodes:
        arguments = [values[name] if name else None for name in node.inputs]
        values[node.output] = compute(node.op, arguments, node.attrs)
    return values


def compute(op: str, arguments: Sequence[Array | None], attributes: Attributes) -> Array:
    """Computes one operator with its fused activation; an absent optional argument is None."""
    with np.errstate(all="ignore"):
        if op in CUSTOM:
            return CUSTOM[op](arguments, attributes)
        if op in COMPUTE_GENERIC:
            return COMPUTE_GENERIC[op]([argument for argument in arguments if argument is not None], attributes)
        value = np.asarray(COMPUTE[op](arguments, attributes))
        if "activation" in attributes:
            value = np.asarray(_ACTIVATIONS[attributes["activation"]](value, attributes))
    kind = np.result_type(*(argument.dtype for argument in arguments if argument is not None))
    return value.astype(kind, copy=False)


def _first(arguments: Sequence[Array | None]) -> Array:
    assert arguments[0] is not None
    return arguments[0]


def _clip(x: Array, attributes: Attributes) -> Array:
    return np.minimum(np.maximum(x, attributes["alpha"]), attributes["beta"])


def _leaky_relu(x: Array, attributes: Attributes) -> Array:
    return np.where(x < 0, x * attributes["alpha"], x)


def _elu(x: Array, attributes: Attributes) -> Array:
    return np.where(x < 0, attributes["alpha"] * np.expm1(np.minimum(x, 0)), x)


def _hard_sigmoid(x: Array, attributes: Attributes) -> Array:
    return np.asarray(np.clip(attributes["alpha"] * x + attributes["beta"], 0, 1))


def _sigmoid(x: Array) -> Array:
    small = np.exp(-np.abs(x))
    return np.asarray(np.where(x < 0, small, 1) / (1 + small))


def _gelu(x: Array) -> Array:
    return np.asarray(0.5 * x * (1 + _erf(x / math.sqrt(2))))


def _gelu_tanh(x: Array) -> Array:
    return np.asarray(0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))))


_erf = np.vectorize(math.erf, otypes=[np.float64])
_ACTIVATIONS: Mapping[str, Callable[[Array, Attributes], Array]] = {
    "none": lambda x, _: x,
    "relu": lambda x, _: np.maximum(x, 0),
    "clip": _clip,
    "sigmoid": lambda x, _: _sigmoid(x),
    "tanh": lambda x, _: np.tanh(x),
    "leaky_relu": _leaky_relu,
    "elu": _elu,
    "hard_sigmoid": _hard_sigmoid,
    "hard_swish": lambda x, _: x * np.clip(x / 6 + 0.5, 0, 1),
    "gelu": lambda x, _: _gelu(x),
    "gelu_tanh": lambda x, _: _gelu_tanh(x),
    "swish": lambda x, attributes: x * _sigmoid(attributes["alpha"] * x),
    "mish": lambda x, _: x * np.tanh(np.logaddexp(x, 0)),
    "selu": lambda x, attributes: attributes["beta"] * _elu(x, attributes),
    "celu": lambda x, attributes: attributes["alpha"] * _elu(x / attributes["alpha"], {"alpha": 1}),
}

_ARITHMETIC: Mapping[str, Callable[..., Any]] = {
    "Add": np.add,
    "Sub": np.subtract,
    "Mul": np.multiply,
    "Div": lambda a, b: np.trunc(np.true_divide(a, b)) if a.dtype.kind in "iu" else np.divide(a, b),
    "Max": np.maximum,
    "Min": np.minimum,
    "Pow": np.power,
    "Exp": np.exp,
    "Log": np.log,
    "Sqrt": np.sqrt,
    "Reciprocal": np.reciprocal,
    "Neg": np.negative,
    "Abs": np.abs,
    "Floor": np.floor,
    "Ceil": np.ceil,
    "Erf": _erf,
    "Round": np.round,
    "Softplus": lambda x: np.logaddexp(x, 0),
    "Sin": np.sin,
    "Cos": np.cos,
    "Identity": np.array,
    "MatMul": np.matmul,
    "PRelu": lambda x, slope: np.where(x < 0, x * slope, x),
}


def _elementwise(function: Callable[..., Any]) -> Compute:
    return lambda arguments, attributes: function(*arguments)


def _activation(function: Callable[[Array, Attributes], Array]) -> Compute:
    return lambda arguments, attributes: function(_first(arguments), attributes)


def _windows(x: Array, window: Shape, attributes: Attributes, fill: float) -> Array:
    """All windows of an image [n, c, h, w] padded with `fill`: a view [n, c, rows, columns, *window]."""
    top, left, bottom, right = attributes["pads"]
    padded = np.pad(x, ((0, 0), (0, 0), (top, bottom), (left, right)), constant_values=fill)
    vertical, horizontal = attributes["strides"]
    return sliding_window_view(padded, window, axis=(2, 3))[:, :, ::vertical, ::horizontal]


def _conv(arguments: Sequence[Array | None], attributes: Attributes) -> Array:
    """Computes the convolution of each group as one matrix product over the windows of the padded image."""
    x, w, bias, residual = (*arguments, None, None)[:4]
    assert x is not None and w is not None
    vertical, horizontal = attributes["dilations"]
    span = (vertical * (w.shape[2] - 1) + 1, horizontal * (w.shape[3] - 1) + 1)
    windows = _windows(x, span, attributes, 0)[..., ::vertical, ::horizontal]
    batch, channels, rows, columns = windows.shape[:4]
    group, per_group = attributes["group"], w.shape[0] // attributes["group"]
    split = windows.reshape(batch, group, channels // group, rows, columns, *w.shape[2:])
    patches = split.transpose(0, 1, 2, 5, 6, 3, 4).reshape(batch, group, -1, rows * columns)
    out = np.matmul(w.reshape(group, per_group, -1), patches).reshape(batch, w.shape[0], rows, columns)
    if bias is not None:
        out = out + bias[:, None, None]
    return np.asarray(out if residual is None else out + residual)


def _fully_connected(arguments: Sequence[Array | None], attributes: Attributes) -> Array:
    x, w, bias = (*arguments, None)[:3]
    assert x is not None and w is not None
    out: Array = x @ w.T
    return out if bias is None else out + bias


def _scale_shift(arguments: Sequence[Array | None], attributes: Attributes) -> Array:
    x, scale, shift = arguments
    assert x is not None and scale is not None and shift is not None
    tail = (1,) * (x.ndim - 2)
    return np.asarray(x * scale.reshape(-1, *tail) + shift.reshape(-1, *tail))


def _layer_normalization(arguments: Sequence[Array | None], attributes: Attributes) -> Array:
    x, axes = _first(arguments), attributes["axes"]
    shape = [size if axis in axes else 1 for axis, size in enumerate(x.shape)]
    normalised = _normalised(x, axes, attributes["epsilon"], attributes["centered"])
    return _scaled(normalised, arguments, shape)


def _group_normalization(arguments: Sequence[Array | None], attributes: Attributes) -> Array:
    x = _first(arguments)
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


def _max_pool(arguments: Sequence[Array | None], attributes: Attributes) -> Array:
    x = _first(arguments)
    return np.asarray(_windows(x, attributes["kernel"], attributes, -np.inf).max(axis=(4, 5)))


def _average_pool(arguments: Sequence[Array | None], attributes: Attributes) -> Array:
    x = _first(arguments)
    sums = _windows(x, attributes["kernel"], attributes, 0).sum(axis=(4, 5))
    if attributes["count_include_pad"]:
        return np.asarray(sums / math.prod(attributes["kernel"]))
    inside = np.ones((1, 1, *x.shape[2:]), x.dtype)
    return np.asarray(sums / _windows(inside, attributes["kernel"], attributes, 0).sum(axis=(4, 5)))


def _lrn(arguments: Sequence[Array | None], attributes: Attributes) -> Array:
    """Normalises over a centred window of `size` channels, an odd number, as ONNX defines LRN."""
    x, size = _first(arguments), attributes["size"]
    padded = np.pad(x * x, [(0, 0), (size // 2, size // 2)] + [(0, 0)] * (x.ndim - 2))
    squares = sliding_window_view(padded, size, axis=1).sum(axis=-1)
    return np.asarray(x / (attributes["bias"] + attributes["alpha"] / size * squares) ** attributes["beta"])


def _softmax(arguments: Sequence[Array | None], attributes: Attributes) -> Array:
    x, axis = _first(arguments), attributes["axis"]
    powers = np.exp(x - x.max(axis=axis, keepdims=True))
    return np.asarray(powers / powers.sum(axis=axis, keepdims=True))


def _log_softmax(arguments: Sequence[Array | None], attributes: Attributes) -> Array:
    x, axis = _first(arguments), attributes["axis"]
    centred = x - x.max(axis=axis, keepdims=True)
    return np.asarray(centred - np.log(np.exp(centred).sum(axis=axis, keepdims=True)))


def _concat(arguments: Sequence[Array | None], attributes: Attributes) -> Array:
    return np.concatenate([part for part in arguments if part is not None], axis=attributes["axis"])


def _slice(arguments: Sequence[Array | None], attributes: Attributes) -> Array:
    out = _first(arguments)
    keys = ("starts", "ends", "axes", "steps")
    for start, end, axis, step in zip(*(attributes[key] for key in keys), strict=True):
        out = np.take(out, range(start, end, step), axis=axis)
    return out


def _pad(arguments: Sequence[Array | None], attributes: Attributes) -> Array:
    x, pads = _first(arguments), attributes["pads"]
    widths = list(zip(pads, pads[x.ndim :], strict=False))
    if attributes["mode"] == "constant":
        return np.pad(x, widths, constant_values=attributes["value"])
    return np.pad(x, widths, mode=attributes["mode"])


def _transpose(arguments: Sequence[Array | None], attributes: Attributes) -> Array:
    return _first(arguments).transpose(attributes["perm"])


def _reshape(arguments: Sequence[Array | None], attributes: Attributes) -> Array:
    return _first(arguments).reshape(attributes["shape"])


def _shuffle(arguments: Sequence[Array | None], attributes: Attributes) -> Array:
    x = _first(arguments)
    batch, channels, *image = x.shape
    return x.reshape(batch, attributes["group"], -1, *image).swapaxes(1, 2).reshape(batch, channels, *image)


def _reduce(function: Callable[..., Any]) -> Compute:
    def reduce(arguments: Sequence[Array | None], attributes: Attributes) -> Array:
        return np.asarray(function(_first(arguments), axis=attributes["axes"], keepdims=attributes["keepdims"]))

    return reduce


def _resize(arguments: Sequence[Array | None], attributes: Attributes) -> Array:
    """Resizes height, then width: both modes are separable."""
    out = _first(arguments)
    for axis, size, scale in zip((2, 3), attributes["sizes"], attributes["scales"], strict=True):
        extent, coordinates = out.shape[axis], attributes["coordinate_transformation_mode"]
        if attributes["mode"] == "nearest":
            chosen = nearest_indices(extent, size, scale, coordinates, attributes["nearest_mode"])
            out = np.take(out, chosen, axis=axis)
        else:
            out = _interpolate(out, source_coordinates(extent, size, scale, coordinates), axis)
    return out


def source_coordinates(extent: int, size: int, scale: float, mode: str) -> Array:
    """Where each of the `size` output positions lies in an input of `extent` positions, as ONNX Resize defines it."""
    position = np.arange(size, dtype=np.float64)
    if mode == "asymmetric":
        return position / scale
    if mode == "align_corners":
        return position * (extent - 1) / (size - 1) if size > 1 else np.zeros(1)
    if mode == "pytorch_half_pixel" and size == 1:
        return np.zeros(1)
    return (position + 0.5) / scale - 0.5


def _interpolate(x: Array, source: Array, axis: int) -> Array:
    inside = np.clip(source, 0, x.shape[axis] - 1)
    low = np.floor(inside).astype(np.int64)
    high = np.minimum(low + 1, x.shape[axis] - 1)
    weight = (inside - low).reshape([-1 if other == axis else 1 for other in range(x.ndim)]).astype(x.dtype)
    return np.asarray(np.take(x, low, axis=axis) * (1 - weight) + np.take(x, high, axis=axis) * weight)


COMPUTE: Mapping[str, Compute] = {
    **COMPUTE_RECURRENT,
    **{op: _elementwise(function) for op, function in _ARITHMETIC.items()},
    **{op: _activation(_ACTIVATIONS[name]) for op, name in ACTIVATION_OF.items()},
    "Conv": _conv,
    "ConvTranspose": transposed_convolution,
    "FullyConnected": _fully_connected,
    "BatchNormalization": _scale_shift,
    "LayerNormalization": _layer_normalization,
    "GroupNormalization": _group_normalization,
    "Attention": compute_attention,
    "MaxPool": _max_pool,
    "AveragePool": _average_pool,
    "LRN": _lrn,
    "Softmax": _softmax,
    "LogSoftmax": _log_softmax,
    "Concat": _concat,
    "Slice": _slice,
    "Pad": _pad,
    "Transpose": _transpose,
    "Reshape": _reshape,
    "Resize": _resize,
    "ChannelShuffle": _shuffle,
    "ReduceMean": _reduce(np.mean),
    "ReduceSum": _reduce(np.sum),
    "ReduceMax": _reduce(np.max),
    "ReduceMin": _reduce(np.min),
}
