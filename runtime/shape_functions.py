"""Shapes that operators give: functions from the shapes of the inputs and the attributes to the shape of the output.

All raise ModelError where shapes and attributes do not fit each other. Attributes are those of runtime/operators.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from runtime.errors import ModelError
from runtime.recurrence import DIRECTIONS, GATES, working_rows
from runtime.transposed_convolution import transposed_size

Shape = tuple[int, ...]
Attributes = Mapping[str, Any]
ShapeFunction = Callable[[Sequence[Shape], Attributes], Shape]


def same(shapes: Sequence[Shape], attributes: Attributes) -> Shape:
    """The first input's."""
    return shapes[0]


def broadcast(shapes: Sequence[Shape], attributes: Attributes) -> Shape:
    """That which all inputs are broadcast to."""
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError:
        raise ModelError(f"shapes {_list(shapes)} do not broadcast") from None


def broadcast_to_first(shapes: Sequence[Shape], attributes: Attributes) -> Shape:
    """The first input's, to which the others are broadcast."""
    if broadcast(shapes, attributes) != shapes[0]:
        raise ModelError(f"shape {shapes[1]} does not broadcast to {shapes[0]}")
    return shapes[0]


def _list(shapes: Sequence[Shape]) -> str:
    return " and ".join(str(shape) for shape in shapes)


def _rank(shape: Shape, rank: int, what: str) -> None:
    if len(shape) != rank:
        raise ModelError(f"{what} has shape {shape}; {rank} axes are supported")


def window_outputs(size: Shape, window: Shape, strides: Shape, pads: Shape) -> Shape:
    """Output (height, width) of a window, its dilation included, that slides over a padded image."""
    padded = (size[0] + pads[0] + pads[2], size[1] + pads[1] + pads[3])
    out = tuple((extent - span) // stride + 1 for extent, span, stride in zip(padded, window, strides, strict=True))
    if min(out) < 1:
        raise ModelError(f"window {window} is larger than the padded input {padded}")
    return out


def conv(shapes: Sequence[Shape], attributes: Attributes) -> Shape:
    """(n, out channels, height, width) of a convolution; inputs x, filter, bias, residual."""
    x, w = shapes[0], shapes[1]
    _rank(x, 4, "the input")
    _rank(w, 4, "the filter")
    group = attributes["group"]
    if x[1] != w[1] * group or w[0] % group:
        raise ModelError(f"filter {w} in {group} group(s) does not fit an input of shape {x}")
    window = tuple(d * (k - 1) + 1 for k, d in zip(w[2:], attributes["dilations"], strict=True))
    out = (x[0], w[0], *window_outputs(x[2:], window, attributes["strides"], attributes["pads"]))
    _bias(shapes, w[0])
    if len(shapes) > 3 and shapes[3] != out:
        raise ModelError(f"residual of shape {shapes[3]} does not fit an output of shape {out}")
    return out


def conv_transpose(shapes: Sequence[Shape], attributes: Attributes) -> Shape:
    """(n, out channels, height, width) of a transposed convolution."""
    x, w = shapes[0], shapes[1]
    _rank(x, 4, "the input")
    _rank(w, 4, "the filter")
    if x[1] != w[0] or x[1] % attributes["group"]:
        raise ModelError(f"filter {w} in {attributes['group']} group(s) does not fit an input of shape {x}")
    pads, extra = attributes["pads"], attributes["output_padding"]
    if len(pads) != 4 or len(extra) != 2 or min(extra) < 0:
        raise ModelError(f"pads {pads} and output_padding {extra}; four and two numbers, the latter not negative")
    sums = (pads[0] + pads[2], pads[1] + pads[3])
    geometry = zip(x[2:], w[2:], attributes["strides"], attributes["dilations"], sums, extra, strict=True)
    image = tuple(transposed_size(*axis) for axis in geometry)
    if min(image) < 1:
        raise ModelError(f"pads {pads} cut all of the output away")
    out = (x[0], w[1] * attributes["group"], *image)
    _bias(shapes, out[1])
    if len(shapes) > 3 and shapes[3] != out:
        raise ModelError(f"residual of shape {shapes[3]} does not fit an output of shape {out}")
    return out


def _bias(shapes: Sequence[Shape], channels: int) -> None:
    if len(shapes) > 2 and shapes[2] not in {(channels,), ()}:
        raise ModelError(f"bias of shape {shapes[2]} does not fit {channels} output channels")


def fully_connected(shapes: Sequence[Shape], attributes: Attributes) -> Shape:
    """(..., out) of x (..., in) and weights (out, in)."""
    x, w = shapes[0], shapes[1]
    _rank(w, 2, "the weight matrix")
    if len(x) < 2 or x[-1] != w[1]:
        raise ModelError(f"weights of shape {w} do not fit an input of shape {x}")
    _bias(shapes, w[0])
    return (*x[:-1], w[0])


def matmul(shapes: Sequence[Shape], attributes: Attributes) -> Shape:
    """(..., m, n) of (..., m, k) and (..., k, n); the leading axes are broadcast."""
    a, b = shapes
    if min(len(a), len(b)) < 2:
        raise ModelError(f"shapes {_list(shapes)}: matrices of at least 2 axes are supported")
    if a[-1] != b[-2]:
        raise ModelError(f"shapes {_list(shapes)} do not multiply")
    return (*broadcast((a[:-2], b[:-2]), attributes), a[-2], b[-1])


def scale_shift(shapes: Sequence[Shape], attributes: Attributes) -> Shape:
    """The first input's, whose channels (axis 1) have a scale and a shift."""
    x = shapes[0]
    if len(x) < 2 or any(shape != (x[1],) for shape in shapes[1:]):
        raise ModelError(f"scale and shift of shapes {_list(shapes[1:])} do not fit an input of shape {x}")
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
        raise ModelError(f"scale and shift of shapes {_list(shapes[1:])} are not of shape {wanted}")


def pool(shapes: Sequence[Shape], attributes: Attributes) -> Shape:
    """(n, channels, height, width) of a window that slides over images."""
    x = shapes[0]
    _rank(x, 4, "the input")
    return (*x[:2], *window_outputs(x[2:], attributes["kernel"], attributes["strides"], attributes["pads"]))


def concat(shapes: Sequence[Shape], attributes: Attributes) -> Shape:
    """That of all inputs joined along an axis."""
    axis, first = attributes["axis"], shapes[0]
    for shape in shapes:
        if len(shape) != len(first) or not 0 <= axis < len(first) or _but(shape, axis) != _but(first, axis):
            raise ModelError(f"shapes {_list(shapes)} do not concatenate along axis {axis}")
    return (*first[:axis], sum(shape[axis] for shape in shapes), *first[axis + 1 :])


def _but(shape: Shape, axis: int) -> Shape:
    return shape[:axis] + shape[axis + 1 :]


def same_with_axis(shapes: Sequence[Shape], attributes: Attributes) -> Shape:
    """The first input's, which has the axis."""
    if not 0 <= attributes["axis"] < len(shapes[0]):
        raise ModelError(f"axis {attributes['axis']} is not an axis of an input of shape {shapes[0]}")
    return shapes[0]


def sliced(shapes: Sequence[Shape], attributes: Attributes) -> Shape:
    """That of a range of indices of some axes."""
    out = list(shapes[0])
    starts, ends, axes, steps = (attributes[key] for key in ("starts", "ends", "axes", "steps"))
    if not len(starts) == len(ends) == len(axes) == len(steps) or 0 in steps:
        raise ModelError(f"starts {starts}, ends {ends}, axes {axes} and steps {steps} do not fit")
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        indices = range(start, end, step)
        if not 0 <= axis < len(out) or any(not 0 <= index < shapes[0][axis] for index in (*indices[:1], *indices[-1:])):
            raise ModelError(f"{indices} of axis {axis} is not within an input of shape {shapes[0]}")
        out[axis] = len(indices)
    return tuple(out)


def pad(shapes: Sequence[Shape], attributes: Attributes) -> Shape:
    """That of the input with `pads` elements around it."""
    x, pads = shapes[0], attributes["pads"]
    if len(pads) != 2 * len(x) or min(pads, default=0) < 0:
        raise ModelError(f"pads {pads} for an input of shape {x}; two for each axis, not negative, are needed")
    if attributes["mode"] == "reflect" and any(max(pads[axis], pads[axis + len(x)]) >= n for axis, n in enumerate(x)):
        raise ModelError(f"pads {pads} reflect more than an input of shape {x} has")
    return tuple(size + before + after for size, before, after in zip(x, pads, pads[len(x) :], strict=False))


def transpose(shapes: Sequence[Shape], attributes: Attributes) -> Shape:
    """That of the input with its axes in another order."""
    perm = attributes["perm"]
    if sorted(perm) != list(range(len(shapes[0]))):
        raise ModelError(f"permutation {perm} does not fit an input of shape {shapes[0]}")
    return tuple(shapes[0][axis] for axis in perm)


def reshape(shapes: Sequence[Shape], attributes: Attributes) -> Shape:
    """The one that the node names."""
    out: Shape = attributes["shape"]
    if math.prod(out) != math.prod(shapes[0]):
        raise ModelError(f"an input of shape {shapes[0]} does not reshape to {out}")
    return out


def resize(shapes: Sequence[Shape], attributes: Attributes) -> Shape:
    """(n, channels, *sizes) of images."""
    _rank(shapes[0], 4, "the input")
    if len(attributes["scales"]) != 2 or min(attributes["scales"]) <= 0:
        raise ModelError(f"scales are {attributes['scales']}; two positive numbers are needed")
    return (*shapes[0][:2], *attributes["sizes"])


def shuffle(shapes: Sequence[Shape], attributes: Attributes) -> Shape:
    """That of images whose channels make groups."""
    _rank(shapes[0], 4, "the input")
    if shapes[0][1] % attributes["group"]:
        raise ModelError(f"{shapes[0][1]} channels do not split into {attributes['group']} groups")
    return shapes[0]


def reduce(shapes: Sequence[Shape], attributes: Attributes) -> Shape:
    """That of the input without, or with one element along, the axes that are reduced."""
    axes, keep = attributes["axes"], attributes["keepdims"]
    if any(not 0 <= axis < len(shapes[0]) for axis in axes):
        raise ModelError(f"axes {axes} are not all axes of an input of shape {shapes[0]}")
    return tuple(1 if axis in axes else size for axis, size in enumerate(shapes[0]) if keep or axis not in axes)


def recurrent(op: str) -> ShapeFunction:
    """(times + working rows, directions x batch, hidden) of RNN, GRU or LSTM (runtime/recurrence.py)."""

    def shape(shapes: Sequence[Shape], attributes: Attributes) -> Shape:
        x, r, h = shapes[:3]
        directions = len(DIRECTIONS[attributes["direction"]])
        _rank(x, 3, "the input")
        _rank(h, 2, "the hidden state")
        times, batch, hidden = x[0], x[1], h[1]
        width = GATES[op] * hidden
        if (x[2], r, h[0]) != (directions * width, (directions, hidden, width), directions * batch):
            raise ModelError(f"sums {x}, weights {r} and state {h} do not fit {directions} direction(s) of {op}")
        others = {3: (h, ()), 4: ((directions, hidden if op == "GRU" else 3 * hidden), ())}
        for index in range(3, len(shapes)):
            if shapes[index] not in others[index]:
                raise ModelError(f"input {index} of shape {shapes[index]} does not fit a state of shape {h}")
        return (times + working_rows(op, attributes.get("linear_before_reset", False)), *h)

    return shape
