"""Scatter and its kin: updates go where a tensor of indices tells; OneHot, MaxUnpool and Col2Im are told so too."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from runtime.errors import ModelError
from runtime.families.indexing.imports import along_axis, check_indices, tuples
from runtime.importers.builder import GraphBuilder, check_size
from runtime.importers.emitting import Emitter
from runtime.importers.onnx_node import OnnxNode, normalized_axis
from runtime.importers.registry import Handler
from runtime.semantics.generic import row_major_strides
from runtime.semantics.shape_functions import Shape

_REDUCTIONS = ("none", "add", "mul", "max", "min")


def _write(
    node: OnnxNode, builder: GraphBuilder, inputs: tuple[str, str, str], places: Mapping[str, object], function: str
) -> None:
    x, indices, updates = inputs
    if 0 in (*builder.shape(indices), *builder.shape(updates)):  # as slices that end where they begin leave
        Emitter(node, builder).op("Identity", x, output=node.output)
        return
    builder.emit(node, "IndexedWrite", inputs, {**places, "function": function}, node.output)


def _scatter_elements(node: OnnxNode, builder: GraphBuilder) -> None:
    x, indices, updates = node.input(0), node.input(1), node.input(2)
    shape = builder.shape(x)
    axis = normalized_axis(node, node.integer("axis", 0), len(shape))
    function = node.choice("reduction", "none", _REDUCTIONS)
    check_indices(node, builder, indices, (shape[axis],), axis)
    _write(node, builder, (x, indices, updates), along_axis(shape, builder.shape(indices), axis), function)


def _scatter_nd(node: OnnxNode, builder: GraphBuilder) -> None:
    x, indices, updates = node.input(0), node.input(1), node.input(2)
    function = node.choice("reduction", "none", _REDUCTIONS)
    _write(node, builder, (x, indices, updates), tuples(node, builder), function)


def flat_places(shape: Shape, size: int) -> dict[str, Any]:
    """Attributes of an indexed operator whose index of each position counts all elements."""
    return {
        "shape": shape,
        "strides": (0,) * len(shape),
        "index_strides": row_major_strides(shape),
        "component_stride": 0,
        "limits": (size,),
        "limit_strides": (1,),
    }


def _one_hot(node: OnnxNode, builder: GraphBuilder) -> None:
    """Each class is compared with the index; negative indices count from the end."""
    emit, indices, values = Emitter(node, builder), node.input(0), node.input(2)
    shape, depth = builder.shape(indices), int(builder.scalar(node, 1, "the depth"))
    axis = normalized_axis(node, node.integer("axis", -1), len(shape) + 1)
    check_size(node, (depth,))
    wide = emit.reshape(emit.cast(indices, "int64"), (*shape[:axis], 1, *shape[axis:]))
    classes = np.arange(depth).reshape(-1, *(1,) * (len(shape) - axis))
    size = emit.constant(depth, dtype="int64")
    inside = emit.element(
        "and",
        emit.element("less", wide, size, dtype="bool"),
        emit.element("greater_or_equal", wide, emit.constant(-depth, dtype="int64"), dtype="bool"),
    )
    same = emit.element("equal", emit.element("mod", wide, size), emit.constant(classes, dtype="int64"), dtype="bool")
    hot = emit.element("and", same, inside)
    off, on = (emit.reshape(emit.slice(values, 0, index, index + 1), ()) for index in (0, 1))
    emit.element("where", hot, on, off, output=node.output)


def _max_unpool(node: OnnxNode, builder: GraphBuilder) -> None:
    """Indices count all elements of a tensor of the size that the window says, which may lie in a larger one."""
    x, indices = node.input(0), node.input(1)
    emit, shape = Emitter(node, builder), builder.shape(node.input(0))
    kernel, rank = node.integers("kernel_shape"), len(shape) - 2
    strides, pads = node.integers("strides", (1,) * rank), node.integers("pads", (0,) * 2 * rank)
    sizes = [
        (size - 1) * strides[axis] - pads[axis] - pads[axis + rank] + kernel[axis]
        for axis, size in enumerate(shape[2:])
    ]
    own = (*shape[:2], *sizes)
    check_size(node, own)
    out = builder.integers(node, 2, "output_shape") if node.optional(2) else own
    attributes = {**flat_places(shape, math.prod(own)), "function": "none"}
    y = builder.emit(node, "IndexedWrite", [emit.constant(np.zeros(own), like=x), indices, x], attributes)
    starts, steps = (0,) * len(out), (1,) * len(out)
    emit.op("Embedding", y, output=node.output, shape=out, starts=starts, steps=steps, value=0.0)


def _col2im(node: OnnxNode, builder: GraphBuilder) -> None:
    """Every element of a column is added where its window had it."""
    emit, x = Emitter(node, builder), node.input(0)
    image, block = builder.integers(node, 1, "image_shape"), builder.integers(node, 2, "block_shape")
    rank, (batch, columns, windows) = len(image), builder.shape(x)
    strides, dilations = node.integers("strides", (1,) * rank), node.integers("dilations", (1,) * rank)
    pads = node.integers("pads", (0,) * 2 * rank)
    padded = [size + pads[axis] + pads[axis + rank] for axis, size in enumerate(image)]
    counts = [
        (size - dilation * (extent - 1) - 1) // stride + 1
        for size, dilation, extent, stride in zip(padded, dilations, block, strides, strict=True)
    ]
    channels = columns // math.prod(block)
    if math.prod(counts) != windows or channels * math.prod(block) != columns:
        raise ModelError(f"{node}: {columns} rows and {windows} columns do not fit image {image} and block {block}")
    check_size(node, (batch, channels, *padded))
    steps = row_major_strides((batch, channels, *padded))
    inner, within, between = steps[2:], [], []
    for axis in range(rank):
        within.append(dilations[axis] * inner[axis])
        between.append(strides[axis] * inner[axis])
    places = np.zeros((batch, channels, *block, *counts), np.int64)
    for axis, step in enumerate((steps[0], steps[1], *within, *between)):
        places += np.arange(places.shape[axis]).reshape([-1 if at == axis else 1 for at in range(places.ndim)]) * step
    size = math.prod((batch, channels, *padded))
    zeros, at = emit.constant(np.zeros(size), like=x), emit.constant(places.reshape(-1), dtype="int64")
    attributes = {**flat_places((places.size,), size), "function": "add"}
    summed = builder.emit(node, "IndexedWrite", [zeros, at, emit.flat(x)], attributes)
    shape = (batch, channels, *image)
    offset = sum(pads[axis] * inner[axis] for axis in range(rank))
    emit.view(summed, shape, steps, offset, output=node.output)


def _tensor_scatter(node: OnnxNode, builder: GraphBuilder) -> None:
    """A range of an axis of each batch is written from the index that the batch's entry tells."""
    cache, update = node.input(0), node.input(1)
    emit, shape, new = Emitter(node, builder), builder.shape(cache), builder.shape(update)
    axis = normalized_axis(node, node.integer("axis", -2), len(shape))
    mode = node.choice("mode", "linear", ("linear", "circular"))
    steps = emit.constant(np.arange(new[axis]), dtype="int64")
    start = emit.constant(np.zeros((shape[0], 1)), dtype="int64")
    if node.optional(2):
        start = emit.reshape(emit.cast(node.input(2), "int64"), (shape[0], 1))
    places = emit.element("add", start, steps)
    if mode == "circular":
        places = emit.element("mod", places, emit.constant(shape[axis], dtype="int64"))
    attributes = along_axis(shape, new, axis)
    attributes["index_strides"] = tuple(new[axis] if at == 0 else 1 if at == axis else 0 for at in range(len(new)))
    _write(node, builder, (cache, places, update), attributes, "none")


HANDLERS: Mapping[str, Handler] = {
    "Scatter": _scatter_elements,
    "ScatterElements": _scatter_elements,
    "ScatterND": _scatter_nd,
    "OneHot": _one_hot,
    "MaxUnpool": _max_unpool,
    "Col2Im": _col2im,
    "TensorScatter": _tensor_scatter,
}
