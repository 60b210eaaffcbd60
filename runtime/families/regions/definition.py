"""Pooling within regions: its row, what NumPy computes, and the CPU operator."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from runtime.errors import ModelError
from runtime.graph import Array
from runtime.kernels.strided import code, strided_row
from runtime.operators.row import FIXED, Operator
from runtime.semantics.functions import RegionFunction, function_names
from runtime.semantics.generic import MAX_SAMPLES, SHAPE_FUNCTIONS
from runtime.semantics.shape_functions import Attributes

OPERATORS = {
    "RegionPooling": Operator(
        (3, 3),
        SHAPE_FUNCTIONS["RegionPooling"],
        {
            "function": function_names(RegionFunction),
            "bins": "pair",
            "samples": "int",
            **dict.fromkeys(("scale", "shift", "smallest"), "float"),
            "grouped": "bool",
        },
        format=FIXED,
    ),
}


BEYOND = np.asarray((0, 1))  # the last pixel belongs to a region
FARTHEST = 1e9  # coordinate of a region that is not empty


class Span(NamedTuple):
    """The bin number `at` of a region that begins at `start`, each bin of the same extent, in pixels."""

    start: float
    at: int
    extent: float


def region_pooling(arguments: Sequence[Array], attributes: Attributes) -> Array:
    """Every bin by itself, as its definition says."""
    x, regions, images = arguments
    rows, columns = attributes["bins"]
    each = rows * columns if attributes["grouped"] else 1
    out = np.zeros((len(regions), x.shape[1] // each, rows, columns))
    if ((images < 0) | (images >= len(x))).any():
        raise ModelError(f"a region is of image {int(images.max())}; there are {len(x)}")
    for number, region in enumerate(regions.astype(np.float64)):
        if not (np.abs(region * max(1.0, attributes["scale"])) <= FARTHEST).all():
            continue
        for row, column in np.ndindex(rows, columns):
            first = row * columns + column if attributes["grouped"] else 0
            out[number, :, row, column] = _bin(x[images[number], first::each], region, (row, column), attributes)
    return out.astype(x.dtype)


def _bin(image: Array, region: Array, at: tuple[int, int], attributes: Attributes) -> Array:
    """Each channel of one bin."""
    spans = [_span(region[[axis, axis + 2]], at[1 - axis], attributes["bins"][1 - axis], attributes) for axis in (1, 0)]
    return _BINS[attributes["function"]](image.astype(np.float64), *spans, attributes)


def _rounded(x: Any) -> Any:
    """To the nearest whole number, halves away from zero."""
    return np.copysign(np.floor(np.abs(x) + 0.5), x)


def _span(ends: Array, at: int, bins: int, attributes: Attributes) -> Span:
    """A bin along an axis."""
    scale, function = np.float32(attributes["scale"]).astype(np.float64), attributes["function"]
    if function == "max_pixels":
        start, end = _rounded(ends * scale) + BEYOND
    elif function == "mean_pixels":
        start, end = (_rounded(ends) + BEYOND) * scale
    else:
        start, end = ends * scale - np.float32(attributes["shift"]).astype(np.float64)
    extent = max(end - start, float(np.float32(attributes["smallest"]))) / bins
    return Span(float(start), at, float(extent))


def _pixels(join: Callable[..., Any], whole: bool) -> Callable[..., Array]:
    """Joins the pixels that a bin touches; 0 where there are none."""

    def within(size: int, span: Span) -> slice:
        base, rest = (span.start, 0.0) if whole else (0.0, span.start)
        first, last = (
            base + edge(rest + number * span.extent) for edge, number in ((np.floor, span.at), (np.ceil, span.at + 1))
        )
        return slice(int(np.clip(first, 0, size)), int(np.clip(last, 0, size)))

    def pixels(image: Array, rows: Span, columns: Span, attributes: Attributes) -> Array:
        part = image[:, within(image.shape[1], rows), within(image.shape[2], columns)]
        return np.asarray(join(part, axis=(1, 2)) if part.size else np.zeros(len(image)))

    return pixels


def _samples(join: Callable[..., Any]) -> Callable[..., Array]:
    """Joins the samples of a bin; those beyond a pixel of the image are 0."""

    def samples(image: Array, rows: Span, columns: Span, attributes: Attributes) -> Array:
        weights = [
            list(_taps(size, span, attributes["samples"]))
            for size, span in zip(image.shape[1:], (rows, columns), strict=True)
        ]
        values = [
            [image[:, i, j] * u * v for i, u in zip(*row, strict=True) for j, v in zip(*column, strict=True)]
            for row in weights[0]
            for column in weights[1]
        ]
        return np.asarray(join(np.asarray(values))) if values else np.zeros(len(image))

    return samples


def _taps(size: int, span: Span, samples: int) -> Iterator[tuple[Array, Array]]:
    """The two pixels of each sample along an axis, and their weights."""
    count = samples or int(max(np.ceil(span.extent), 0))
    for number in range(count):
        at = span.start + span.at * span.extent + (number + 0.5) * (span.extent / count)
        inside = np.clip(at, 0, size - 1)
        low = int(inside)
        weight = (inside - low) if -1 <= at <= size else 0.0
        rest = (1 - weight) if -1 <= at <= size else 0.0
        yield np.asarray([low, min(low + 1, size - 1)]), np.asarray([rest, weight])


_BINS: Mapping[str, Callable[..., Array]] = {
    "max_pixels": _pixels(np.max, whole=True),
    "mean_pixels": _pixels(np.mean, whole=False),
    "max_samples": _samples(lambda values: values.max(axis=(0, 1))),
    "mean_samples": _samples(lambda values: values.sum(axis=1).mean(axis=0)),
}


COMPUTE_GENERIC = {"RegionPooling": region_pooling}


_IMAGE = "images rows columns image_stride:any row_stride:any column_stride:any"
_HEAD = f"{code('function', RegionFunction)} samples:0-{MAX_SAMPLES} {_IMAGE}"

STRIDED_KERNELS = (strided_row("region_pooling", "x regions where y", _HEAD, "scale shift smallest"),)
