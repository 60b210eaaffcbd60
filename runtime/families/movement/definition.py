"""What moves elements and computes nothing: rows, and what NumPy computes."""

import math
from collections.abc import Mapping, Sequence

import numpy as np

from runtime.errors import ModelError
from runtime.formats import rewriting
from runtime.graph import Array
from runtime.operators.row import FIXED, SOURCE, AttributeKind, Operator, transposable
from runtime.oracle.shared import Compute, first_input
from runtime.semantics import quantization
from runtime.semantics.shape_functions import Attributes, Shape, require_rank, shape_list


def concat(shapes: Sequence[Shape], attributes: Attributes) -> Shape:
    """That of all inputs joined along an axis."""
    axis, first = attributes["axis"], shapes[0]
    for shape in shapes:
        if len(shape) != len(first) or not 0 <= axis < len(first) or _but(shape, axis) != _but(first, axis):
            raise ModelError(f"shapes {shape_list(shapes)} do not concatenate along axis {axis}")
    return (*first[:axis], sum(shape[axis] for shape in shapes), *first[axis + 1 :])


def _but(shape: Shape, axis: int) -> Shape:
    return shape[:axis] + shape[axis + 1 :]


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


def shuffle(shapes: Sequence[Shape], attributes: Attributes) -> Shape:
    """That of images whose channels make groups."""
    require_rank(shapes[0], 4, "the input")
    if shapes[0][1] % attributes["group"]:
        raise ModelError(f"{shapes[0][1]} channels do not split into {attributes['group']} groups")
    return shapes[0]


PAD_MODES = ("constant", "reflect", "edge")
_SLICE: Mapping[str, AttributeKind] = {"starts": "ints", "ends": "ints", "axes": "ints", "steps": "ints"}
_PAD: Mapping[str, AttributeKind] = {"pads": "ints", "value": "float", "mode": PAD_MODES}


OPERATORS = {
    "Concat": Operator(
        (1, None), concat, {"axis": "int"}, format=transposable(rewriting.on_axis), quantization=quantization.joined
    ),
    "Slice": Operator(
        (1, 1), sliced, _SLICE, format=transposable(rewriting.with_ranges), quantization=quantization.sliced
    ),
    "Pad": Operator(
        (1, 1), pad, _PAD, format=transposable(rewriting.with_pads), quantization=quantization.kept_by_padding
    ),
    "Transpose": Operator(
        (1, 1),
        transpose,
        {"perm": "ints"},
        format=transposable(rewriting.transposed),
        quantization=quantization.transposed,
    ),
    "Reshape": Operator((1, 1), reshape, {"shape": "ints"}, format=SOURCE, quantization=quantization.reshaped),
    "ChannelShuffle": Operator((1, 1), shuffle, {"group": "count"}, format=FIXED, quantization=quantization.moved),
}


def _concat(arguments: Sequence[Array | None], attributes: Attributes) -> Array:
    return np.concatenate([part for part in arguments if part is not None], axis=attributes["axis"])


def _slice(arguments: Sequence[Array | None], attributes: Attributes) -> Array:
    out = first_input(arguments)
    keys = ("starts", "ends", "axes", "steps")
    for start, end, axis, step in zip(*(attributes[key] for key in keys), strict=True):
        out = np.take(out, range(start, end, step), axis=axis)
    return out


def _pad(arguments: Sequence[Array | None], attributes: Attributes) -> Array:
    x, pads = first_input(arguments), attributes["pads"]
    widths = list(zip(pads, pads[x.ndim :], strict=False))
    if attributes["mode"] == "constant":
        return np.pad(x, widths, constant_values=attributes["value"])
    return np.pad(x, widths, mode=attributes["mode"])


def _transpose(arguments: Sequence[Array | None], attributes: Attributes) -> Array:
    return first_input(arguments).transpose(attributes["perm"])


def _reshape(arguments: Sequence[Array | None], attributes: Attributes) -> Array:
    return first_input(arguments).reshape(attributes["shape"])


def _shuffle(arguments: Sequence[Array | None], attributes: Attributes) -> Array:
    x = first_input(arguments)
    batch, channels, *image = x.shape
    return x.reshape(batch, attributes["group"], -1, *image).swapaxes(1, 2).reshape(batch, channels, *image)


COMPUTE: Mapping[str, Compute] = {
    "Concat": _concat,
    "Slice": _slice,
    "Pad": _pad,
    "Transpose": _transpose,
    "Reshape": _reshape,
    "ChannelShuffle": _shuffle,
}
