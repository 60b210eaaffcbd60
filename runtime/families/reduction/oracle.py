"""Computes reductions in NumPy."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from runtime.graph import Array
from runtime.oracle import Compute, first_input
from runtime.shape_functions import Attributes


def _reduce(function: Callable[..., Any]) -> Compute:
    def reduce(arguments: Sequence[Array | None], attributes: Attributes) -> Array:
        return np.asarray(function(first_input(arguments), axis=attributes["axes"], keepdims=attributes["keepdims"]))

    return reduce


COMPUTE: Mapping[str, Compute] = {
    "ReduceMean": _reduce(np.mean),
    "ReduceSum": _reduce(np.sum),
    "ReduceMax": _reduce(np.max),
    "ReduceMin": _reduce(np.min),
}
