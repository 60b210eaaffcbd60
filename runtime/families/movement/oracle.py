"""Computes what only moves elements, in NumPy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from runtime.graph import Array
from runtime.oracle.shared import Compute, first_input
from runtime.semantics.shape_functions import Attributes


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
