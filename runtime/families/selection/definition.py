"""Sorting, and what is kept of overlapping boxes: rows, what NumPy computes, and CPU operators."""

from collections.abc import Sequence

import numpy as np

from runtime.families.strided.oracle import wide
from runtime.formats import rewriting
from runtime.graph import Array
from runtime.kernels.strided import strided_row
from runtime.operators.row import DTYPES, SOURCE, Operator, transposable
from runtime.semantics.generic import SHAPE_FUNCTIONS
from runtime.semantics.shape_functions import Attributes

OPERATORS = {
    "Sorting": Operator(
        (1, 1),
        SHAPE_FUNCTIONS["Sorting"],
        {"axis": "int", "count": "count", "largest": "bool", "positions": "bool"},
        format=transposable(rewriting.on_axis),
    ),
    "Suppression": Operator(
        (4, 4),
        SHAPE_FUNCTIONS["Suppression"],
        {"count": "count", "centred": "bool", "dtype": DTYPES},
        format=SOURCE,
    ),
}


def _sorting(arguments: Sequence[Array], attributes: Attributes) -> Array:
    """Equal elements keep their order; a NaN counts as the greatest."""
    (x,), axis = arguments, attributes["axis"]
    keys = wide(x)
    if attributes["largest"]:
        order = np.flip(x.shape[axis] - 1 - np.argsort(np.flip(keys, axis), axis=axis, kind="stable"), axis)
    else:
        order = np.argsort(keys, axis=axis, kind="stable")
    first = np.take(order, range(attributes["count"]), axis=axis)
    return first.astype(np.int64) if attributes["positions"] else np.take_along_axis(x, first, axis)


def suppression(arguments: Sequence[Array], attributes: Attributes) -> Array:
    """The boxes' numbers; the first of equal scores comes first."""
    boxes, scores, limit, least = (argument.astype(np.float64) for argument in arguments)
    kept = np.full((*scores.shape[:2], attributes["count"]), -1, np.dtype(attributes["dtype"]))
    for group, row in np.ndindex(scores.shape[:2]):
        low, high = _corners(boxes[group], attributes["centred"])
        best = np.argsort(-scores[group, row], kind="stable")
        best = best[scores[group, row, best] > least.reshape(-1)[0]]
        found = _kept(best, low, high, float(limit.reshape(-1)[0]), attributes["count"])
        kept[group, row, : len(found)] = found
    return kept


def _corners(boxes: Array, centred: bool) -> tuple[Array, Array]:
    first, second = boxes[:, :2], boxes[:, 2:]
    if centred:
        first, second = first - second / 2, first + second / 2
    return np.minimum(first, second), np.maximum(first, second)


def _kept(best: Array, low: Array, high: Array, limit: float, count: int) -> list[int]:
    kept: list[int] = []
    for box in best:
        if len(kept) == count:
            break
        sides = np.minimum(high[box], high[kept]) - np.maximum(low[box], low[kept])
        common = np.where((sides > 0).all(axis=1), sides.prod(axis=1), 0)
        union = (high[box] - low[box]).prod() + (high[kept] - low[kept]).prod(axis=1) - common
        if not ((common > 0) & (common / union > limit)).any():
            kept.append(int(box))
    return kept


COMPUTE_GENERIC = {"Sorting": _sorting, "Suppression": suppression}


STRIDED_KERNELS = (
    strided_row("sorting", "x y", "length largest:0-1 positions:0-1"),
    strided_row("suppression", "boxes scores limit least y", "count centred:0-1"),
)
