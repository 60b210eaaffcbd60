"""DeformConv: a convolution whose taps a run moves, as reads between pixels and a matrix product."""

from collections.abc import Mapping

import numpy as np

from runtime.errors import ModelError
from runtime.families.regions.spatial_imports import Grid, read_pixels
from runtime.importers.builder import GraphBuilder
from runtime.importers.emitting import Emitter
from runtime.importers.onnx_node import OnnxNode
from runtime.importers.registry import Handler


def _deform_conv(node: OnnxNode, builder: GraphBuilder) -> None:
    emit, x, weights = Emitter(node, builder), node.input(0), node.input(1)
    shape, filters = builder.shape(x), builder.shape(weights)
    if len(shape) != 4 or len(filters) != 4:
        raise node.unsupported("shape", shape, "images [n, channels, height, width]")
    group, parts = node.integer("group", 1), node.integer("offset_group", 1)
    window = node.integers("kernel_shape", filters[2:])
    batch, channels, taps = shape[0], shape[1], window[0] * window[1]
    if min(group, parts) < 1 or channels != filters[1] * group or channels % parts or filters[0] % group:
        raise ModelError(
            f"{node}: filters {filters} in {group} groups and {parts} groups of offsets do not fit {shape}"
        )
    rows, columns = _places(node, builder, window)
    out = builder.shape(node.input(2))[2:]
    split = emit.reshape(x, (batch * parts, channels // parts, *shape[2:]))
    grid = Grid(emit, "zeros", align=False)
    read = ""
    for row, row_weight in grid.taps(rows, "linear"):
        for column, column_weight in grid.taps(columns, "linear"):
            pixels, weight = [], emit.op("Mul", row_weight, column_weight)
            for tap, size in ((row, shape[2]), (column, shape[3])):
                pixel, inside = grid.inside(tap, size)
                pixels.append(pixel)
                weight = emit.op("Mul", weight, inside)
            value = read_pixels(emit, split, pixels, (batch * parts, taps, *out))
            value = emit.op("Mul", value, emit.reshape(weight, (batch * parts, 1, taps, *out)))
            read = emit.op("Add", read, value) if read else value
    if node.optional(4):
        read = emit.op("Mul", read, emit.reshape(node.input(4), (batch * parts, 1, taps, *out)))
    patches = emit.reshape(read, (batch, group, filters[1] * taps, out[0] * out[1]))
    matrix = emit.reshape(weights, (1, group, filters[0] // group, filters[1] * taps))
    result = (batch, filters[0], *out)
    if not node.optional(3):
        emit.reshape(emit.op("MatMul", matrix, patches), result, node.output)
        return
    summed = emit.reshape(emit.op("MatMul", matrix, patches), result)
    emit.op("Add", summed, emit.reshape(node.input(3), (filters[0], 1, 1)), output=node.output)


def _places(node: OnnxNode, builder: GraphBuilder, window: tuple[int, ...]) -> tuple[str, str]:
    """Rows and columns [n * offset groups, taps, height, width] of all taps: their own places and the offsets."""
    emit, offsets = Emitter(node, builder), node.input(2)
    strides, dilations = node.integers("strides", (1, 1)), node.integers("dilations", (1, 1))
    pads, parts = node.integers("pads", (0,) * 4), node.integer("offset_group", 1)
    batch, found, *out = builder.shape(offsets)
    taps = window[0] * window[1]
    if found != parts * taps * 2 or len(out) != 2:
        raise ModelError(f"{node}: offsets of shape {builder.shape(offsets)} do not fit a window of {window}")
    pairs = emit.reshape(offsets, (batch * parts, taps, 2, *out))
    places = []
    for axis in (0, 1):
        steps = np.arange(out[axis]) * strides[axis] - pads[axis]
        own = np.indices(window)[axis].reshape(taps, 1, 1) * dilations[axis]
        base = own + (steps[:, None] if axis == 0 else steps[None, :])
        moved = emit.reshape(emit.slice(pairs, 2, axis, axis + 1), (batch * parts, taps, *out))
        places.append(emit.op("Add", moved, emit.constant(base)))
    return places[0], places[1]


HANDLERS: Mapping[str, Handler] = {"DeformConv": _deform_conv}
