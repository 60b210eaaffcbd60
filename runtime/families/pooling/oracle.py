"""Computes pooling in NumPy."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from runtime.graph import Array
from runtime.oracle import Compute, first_input, image_windows
from runtime.shape_functions import Attributes


def _max_pool(arguments: Sequence[Array | None], attributes: Attributes) -> Array:
    x = first_input(arguments)
    return np.asarray(image_windows(x, attributes["kernel"], attributes, -np.inf).max(axis=(4, 5)))


def _average_pool(arguments: Sequence[Array | None], attributes: Attributes) -> Array:
    x = first_input(arguments)
    sums = image_windows(x, attributes["kernel"], attributes, 0).sum(axis=(4, 5))
    if attributes["count_include_pad"]:
        return np.asarray(sums / math.prod(attributes["kernel"]))
    inside = np.ones((1, 1, *x.shape[2:]), x.dtype)
    return np.asarray(sums / image_windows(inside, attributes["kernel"], attributes, 0).sum(axis=(4, 5)))


COMPUTE: Mapping[str, Compute] = {"MaxPool": _max_pool, "AveragePool": _average_pool}
