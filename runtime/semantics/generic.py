"""Shapes of the generic operators: a few loops that all of ONNX's element types and most of its operators come down to.

Every input counts as dense and row-major, and strides are in its elements. Attributes:

    Elementwise(x...; function, dtype, alpha, beta)      up to three inputs, NumPy broadcasting
    Strided(x; shape, strides, offset)                   y[i] = x[offset + i . strides]: slices, transpositions, ...
    Embedding(x; shape, starts, steps, value)            x spread out in a tensor that holds `value` elsewhere
    Join(x...; axis)                                     concatenation
    StridedReduction(x; function, dtype, shape, window, strides, offset)
                                                         y[i] = function over w of x[offset + (i, w) . strides]
    StridedProduct(a, b; shape, summed, a_strides, b_strides)
        y[i] = sum over s of a[(i, s) . a_strides] b[(i, s) . b_strides]
    Cumulation(x; function, axis, exclusive, reverse)
    IndexedRead(x, k; shape, strides, index_strides, component_stride, limits, limit_strides)
        y[i] = x[i . strides + sum over c of k_c limit_strides[c]], k_c = k[i . index_strides + c component_stride];
        a negative k_c counts from limits[c]
    IndexedWrite(x, k, u; function, shape, strides, index_strides, component_stride, limits, limit_strides)
        the same place of a copy of x is joined with u[i], for all i of `shape` in order
    Sorting(x; axis, count, largest, positions)          the first `count` of the sorted axis, or where they stood
    Suppression(b, s, limit, least; count, centred, dtype)
        for boxes [groups, n, 4] and scores [groups, classes, n] the numbers [groups, classes, count] of the boxes that
        overlap (intersection over union) no better one of their class by more than `limit`, best first, -1 behind the
        last; a score must exceed `least`; boxes are opposite corners, or centre and size where they are `centred`
    RegionPooling(x, r, k; function, bins, samples, scale, shift, smallest, grouped)
        [regions, channels, *bins] of images x [n, channels, h, w] within regions r [regions, 4] (x low, y low, x high,
        y high), which are multiplied by `scale` and less `shift` in pixels, and at least `smallest` of them; k are
        their images; `samples` of a bin along each axis, 0: one a pixel; where it is `grouped`, every bin has channels
        of its own, c * bins + bin in x
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from runtime.errors import ModelError

Shape = tuple[int, ...]
MAX_SAMPLES = 64  # along each axis of a bin (region_pooling.exact.cpu.c)
GENERIC_OPERATORS = (
    "Elementwise",
    "Strided",
    "Embedding",
    "Join",
    "StridedReduction",
    "StridedProduct",
    "Cumulation",
    "IndexedRead",
    "IndexedWrite",
    "Sorting",
    "Suppression",
    "RegionPooling",
)


def row_major_strides(shape: Sequence[int]) -> Shape:
    """Elements from neighbour to neighbour along each axis of a dense row-major tensor."""
    return tuple(math.prod(shape[axis + 1 :]) for axis in range(len(shape)))


def broadcast_view(shape: Sequence[int], out: Sequence[int]) -> Shape:
    """Strides of a dense tensor along the axes of a shape that it broadcasts to: 0 where it repeats."""
    missing = len(out) - len(shape)
    strides = (0,) * missing + row_major_strides(shape)
    sizes = (1,) * missing + tuple(shape)
    return tuple(0 if size == 1 else step for size, step in zip(sizes, strides, strict=True))


def view_reach(extents: Sequence[int], strides: Sequence[int]) -> tuple[int, int]:
    """Lowest and highest offset that nested loops of at least one turn each reach."""
    if len(extents) != len(strides) or min(extents, default=1) < 1:
        raise ModelError(f"extents {tuple(extents)} with strides {tuple(strides)}; one each, at least 1, is needed")
    ends = [(size - 1) * step for size, step in zip(extents, strides, strict=True)]
    return sum(min(end, 0) for end in ends), sum(max(end, 0) for end in ends)


def _within(shape: Shape, extents: Sequence[int], strides: Sequence[int], offset: int = 0) -> None:
    low, high = view_reach(extents, strides)
    if offset + low < 0 or offset + high >= math.prod(shape):
        raise ModelError(f"a view of {tuple(extents)} leaves an input of shape {shape}")


def _elementwise(shapes: Sequence[Shape], attributes: Mapping[str, Any]) -> Shape:
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError:
        raise ModelError(f"shapes {' and '.join(map(str, shapes))} do not broadcast") from None


def _strided(shapes: Sequence[Shape], attributes: Mapping[str, Any]) -> Shape:
    shape: Shape = attributes["shape"]
    _within(shapes[0], shape, attributes["strides"], attributes["offset"])
    return shape


def _embedding(shapes: Sequence[Shape], attributes: Mapping[str, Any]) -> Shape:
    shape: Shape = attributes["shape"]
    places = zip(shapes[0], attributes["starts"], attributes["steps"], shape, strict=True)
    if any(start < 0 or step < 1 or start + (size - 1) * step >= wide for size, start, step, wide in places):
        raise ModelError(f"an input of shape {shapes[0]} does not lie within {shape}")
    return shape


def _join(shapes: Sequence[Shape], attributes: Mapping[str, Any]) -> Shape:
    axis, first = attributes["axis"], shapes[0]
    rest = {(*shape[:axis], *shape[axis + 1 :]) for shape in shapes}
    if not 0 <= axis < len(first) or len(rest) != 1:
        raise ModelError(f"shapes {' and '.join(map(str, shapes))} do not concatenate along axis {axis}")
    return (*first[:axis], sum(shape[axis] for shape in shapes), *first[axis + 1 :])


def _reduction(shapes: Sequence[Shape], attributes: Mapping[str, Any]) -> Shape:
    shape: Shape = attributes["shape"]
    _within(shapes[0], (*shape, *attributes["window"]), attributes["strides"], attributes["offset"])
    return shape


def _product(shapes: Sequence[Shape], attributes: Mapping[str, Any]) -> Shape:
    shape: Shape = attributes["shape"]
    for operand, name in zip(shapes, ("a_strides", "b_strides"), strict=True):
        _within(operand, (*shape, *attributes["summed"]), attributes[name])
    return shape


def _along_axis(shapes: Sequence[Shape], attributes: Mapping[str, Any]) -> Shape:
    if not 0 <= attributes["axis"] < len(shapes[0]):
        raise ModelError(f"axis {attributes['axis']} is not an axis of an input of shape {shapes[0]}")
    return shapes[0]


def _sorting(shapes: Sequence[Shape], attributes: Mapping[str, Any]) -> Shape:
    axis, count = attributes["axis"], attributes["count"]
    shape = _along_axis(shapes, attributes)
    if count > shape[axis]:
        raise ModelError(f"{count} elements of axis {axis} of an input of shape {shape}")
    return (*shape[:axis], count, *shape[axis + 1 :])


def _indexed(shapes: Sequence[Shape], attributes: Mapping[str, Any]) -> None:
    shape, limits, limit_strides = (attributes[name] for name in ("shape", "limits", "limit_strides"))
    components = (attributes["component_stride"],)
    _within(shapes[0], (*shape, *limits), (*attributes["strides"], *limit_strides))
    _within(shapes[1], (*shape, len(limits)), (*attributes["index_strides"], *components))


def _indexed_read(shapes: Sequence[Shape], attributes: Mapping[str, Any]) -> Shape:
    _indexed(shapes, attributes)
    shape: Shape = attributes["shape"]
    return shape


def _indexed_write(shapes: Sequence[Shape], attributes: Mapping[str, Any]) -> Shape:
    _indexed(shapes, attributes)
    if math.prod(shapes[2]) != math.prod(attributes["shape"]):
        raise ModelError(f"updates of shape {shapes[2]} for {attributes['shape']} places")
    return shapes[0]


def _suppression(shapes: Sequence[Shape], attributes: Mapping[str, Any]) -> Shape:
    boxes, scores, *limits = shapes
    if (
        len(boxes) != 3
        or len(scores) != 3
        or boxes != (scores[0], scores[2], 4)
        or any(math.prod(shape) != 1 for shape in limits)
    ):
        raise ModelError(f"boxes of shape {boxes}, scores of shape {scores} and limits of shapes {limits} do not fit")
    if not 1 <= attributes["count"] <= boxes[1]:
        raise ModelError(f"{attributes['count']} boxes of {boxes[1]}")
    return (*scores[:2], attributes["count"])


def _region_pooling(shapes: Sequence[Shape], attributes: Mapping[str, Any]) -> Shape:
    (x, regions, images), bins = shapes, attributes["bins"]
    each = math.prod(bins) if attributes["grouped"] else 1
    if len(x) != 4 or len(regions) != 2 or regions[1] != 4 or images != regions[:1] or x[1] % each:
        raise ModelError(f"{images} regions of shape {regions} in bins {bins} do not fit images of shape {x}")
    if not 0 <= attributes["samples"] <= MAX_SAMPLES:
        raise ModelError(f"{attributes['samples']} samples of a bin; supported: up to {MAX_SAMPLES}")
    return (regions[0], x[1] // each, *bins)


SHAPE_FUNCTIONS: Mapping[str, Callable[[Sequence[Shape], Mapping[str, Any]], Shape]] = {
    "Elementwise": _elementwise,
    "Strided": _strided,
    "Embedding": _embedding,
    "Join": _join,
    "StridedReduction": _reduction,
    "StridedProduct": _product,
    "Cumulation": _along_axis,
    "IndexedRead": _indexed_read,
    "IndexedWrite": _indexed_write,
    "Sorting": _sorting,
    "Suppression": _suppression,
    "RegionPooling": _region_pooling,
}
