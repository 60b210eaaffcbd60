"""What the oracles of several families share."""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from runtime.graph import Array
from runtime.semantics.shape_functions import Attributes, Shape

Compute = Callable[[Sequence[Array | None], Attributes], Array]


def first_input(arguments: Sequence[Array | None]) -> Array:
    """The first input, which is never absent."""
    assert arguments[0] is not None
    return arguments[0]


def image_windows(x: Array, window: Shape, attributes: Attributes, fill: float) -> Array:
    """All windows of an image [n, c, h, w] padded with `fill`: a view [n, c, rows, columns, *window]."""
    top, left, bottom, right = attributes["pads"]
    padded = np.pad(x, ((0, 0), (0, 0), (top, bottom), (left, right)), constant_values=fill)
    vertical, horizontal = attributes["strides"]
    return sliding_window_view(padded, window, axis=(2, 3))[:, :, ::vertical, ::horizontal]
