"""GridSample: images sampled where a tensor of coordinates tells at run time."""

import itertools
import math
from collections.abc import Mapping, Sequence

import numpy as np

from runtime.importers.builder import GraphBuilder
from runtime.importers.emitting import Emitter
from runtime.importers.onnx_node import OnnxNode
from runtime.importers.registry import Handler
from runtime.semantics.generic import row_major_strides

_MODES = {"bilinear": "linear", "bicubic": "cubic"}
CUBIC = -0.75  # of GridSample


class Grid:
    """The coordinates of a GridSample, [n, positions...] for each spatial axis, and how they are read."""

    def __init__(self, emit: Emitter, padding: str, align: bool) -> None:
        self.emit = emit
        self.padding = padding
        self.align = align

    def number(self, value: float) -> str:
        """A constant number."""
        return self.emit.constant(value)

    def pixels(self, coordinate: str, size: int) -> str:
        """From -1 .. 1 to pixels: of the corners' centres where these are aligned, else of the image's edges."""
        emit = self.emit
        if self.align:
            return emit.op("Mul", emit.op("Add", coordinate, self.number(1)), self.number((size - 1) / 2))
        scaled = emit.op("Mul", emit.op("Add", coordinate, self.number(1)), self.number(size / 2))
        return emit.op("Sub", scaled, self.number(0.5))

    def inside(self, pixel: str, size: int) -> tuple[str, str]:
        """A whole pixel that the padding brings into the image, and what it weighs (empty: 1)."""
        emit, limit = self.emit, size - 1
        if self.padding == "zeros":
            low = emit.element("greater_or_equal", pixel, self.number(0), dtype="bool")
            high = emit.element("less_or_equal", pixel, self.number(limit), dtype="bool")
            weight = emit.cast(emit.element("and", low, high), np.float32)
            return self.clamped(pixel, limit), weight
        if self.padding == "reflection":
            pixel = self.reflected(pixel, size)
        return self.clamped(pixel, limit), ""

    def clamped(self, pixel: str, limit: int) -> str:
        """Between the first and the last pixel."""
        return self.emit.op("Clip", pixel, alpha=0.0, beta=float(limit))

    def reflected(self, pixel: str, size: int) -> str:
        """Mirrored at the centres of the border's pixels, or at their outer edges."""
        emit = self.emit
        low, span = (0.0, float(size - 1)) if self.align else (-0.5, float(size))
        if span == 0:
            return emit.op("Mul", pixel, self.number(0))
        distance = emit.op("Abs", emit.op("Sub", pixel, self.number(low)))
        rest = emit.element("mod", distance, self.number(2 * span))
        back = emit.op("Min", rest, emit.op("Sub", self.number(2 * span), rest))
        return emit.op("Add", back, self.number(low))

    def taps(self, pixel: str, mode: str) -> list[tuple[str, str]]:
        """The whole pixels that a place reads, each with its weight (empty: 1)."""
        emit = self.emit
        if mode == "nearest":
            return [(emit.op("Round", pixel), "")]
        low = emit.op("Floor", pixel)
        part = emit.op("Sub", pixel, low)
        if mode == "linear":
            return [(low, emit.op("Sub", self.number(1), part)), (emit.op("Add", low, self.number(1)), part)]
        return [(emit.op("Add", low, self.number(at)), self.cubic(part, at)) for at in (-1.0, 0.0, 1.0, 2.0)]

    def cubic(self, part: str, at: float) -> str:
        """Keys' weight of the pixel `at` from the one below a place."""
        emit, a = self.emit, CUBIC
        size = emit.op("Abs", emit.op("Sub", part, self.number(at)))
        factors = (a + 2, -(a + 3), 0.0, 1.0) if at in (0.0, 1.0) else (a, -5 * a, 8 * a, -4 * a)
        value = self.number(factors[0])
        for factor in factors[1:]:
            value = emit.op("Add", emit.op("Mul", value, size), self.number(factor))
        return value


def _grid_sample(node: OnnxNode, builder: GraphBuilder) -> None:
    emit, x, coordinates = Emitter(node, builder), node.input(0), node.input(1)
    mode = node.choice("mode", "linear", ("linear", "bilinear", "nearest", "cubic", "bicubic"))
    padding = node.choice("padding_mode", "zeros", ("zeros", "border", "reflection"))
    grid = Grid(emit, padding, bool(node.integer("align_corners", 0)))
    shape, places = builder.shape(x), builder.shape(coordinates)[:-1]
    sizes, axis = shape[2:], len(places)
    each = []
    for index, size in enumerate(sizes):
        last = len(sizes) - 1 - index  # the last coordinate is that of the first axis
        line = emit.reshape(emit.slice(coordinates, axis, last, last + 1), places)
        pixel = grid.pixels(line, size)
        if padding == "border":
            pixel = grid.clamped(pixel, size - 1)
        elif padding == "reflection":
            pixel = grid.clamped(grid.reflected(pixel, size), size - 1)
        each.append([(*grid.inside(tap, size), weight) for tap, weight in grid.taps(pixel, _MODES.get(mode, mode))])
    total = ""
    for taps in itertools.product(*each):
        weights = [weight for _, *both in taps for weight in both if weight]
        value = read_pixels(emit, x, [pixel for pixel, *_ in taps], places)
        if weights:
            factor = weights[0]
            for weight in weights[1:]:
                factor = emit.op("Mul", factor, weight)
            value = emit.op("Mul", value, emit.reshape(factor, (places[0], 1, *places[1:])))
        total = emit.op("Add", total, value) if total else value
    emit.op("Identity", total, output=node.output)


def read_pixels(emit: Emitter, x: str, pixels: Sequence[str], places: tuple[int, ...]) -> str:
    """[n, c, positions...] of an image [n, c, spatial...] at whole pixels [n, positions...] of each spatial axis."""
    shape = emit.shape(x)
    strides, flat = row_major_strides(shape), row_major_strides(shape[2:])
    index = ""
    for pixel, step in zip(pixels, flat, strict=True):
        part = emit.op("Mul", emit.cast(pixel, "int64"), emit.constant(step, dtype="int64"))
        index = emit.op("Add", index, part) if index else part
    steps, zeros = row_major_strides(places), (0,) * (len(places) - 1)
    return emit.op(
        "IndexedRead",
        x,
        index,
        shape=(places[0], shape[1], *places[1:]),
        strides=(strides[0], strides[1], *zeros),
        index_strides=(steps[0], 0, *steps[1:]),
        component_stride=0,
        limits=(math.prod(shape[2:]),),
        limit_strides=(1,),
    )


HANDLERS: Mapping[str, Handler] = {"GridSample": _grid_sample}
