"""RoiAlign and MaxRoiPool: regions of interest, known at run time, sampled or pooled into a grid of fixed size."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from runtime.errors import ModelError
from runtime.importers.builder import GraphBuilder, check_size
from runtime.importers.emitting import Emitter
from runtime.importers.onnx_node import OnnxNode
from runtime.importers.registry import Handler
from runtime.semantics.generic import row_major_strides

Line = list[tuple[str, str]]
_FUNCTIONS = {"avg": "mean", "max": "max"}


def _samples(emit: Emitter, rois: str, first: int, scale: float, bins: int, ratio: int, half: bool) -> str:
    """Coordinates [regions, bins * ratio] of the samples along one axis; `first` is the column of its start."""
    count = emit.shape(rois)[0]

    def column(at: int) -> str:
        scaled = emit.op("Mul", emit.slice(rois, 1, at, at + 1), emit.constant(scale))
        return emit.op("Sub", scaled, emit.constant(0.5)) if half else scaled

    start, end = column(first), column(first + 2)
    extent = emit.op("Sub", end, start)
    if not half:
        extent = emit.op("Max", extent, emit.constant(1.0))
    places = (np.arange(bins)[:, None] + (np.arange(ratio) + 0.5) / ratio).reshape(-1) / bins
    steps = emit.op("Mul", extent, emit.constant(places))
    return emit.reshape(emit.op("Add", start, steps), (count, bins * ratio))


def _line(emit: Emitter, places: str, size: int) -> Line:
    """The two pixels of each sample along an axis with their weights, which are 0 beyond one pixel of the image."""
    near = emit.element("greater_or_equal", places, emit.constant(-1.0), dtype="bool")
    far = emit.element("less_or_equal", places, emit.constant(float(size)), dtype="bool")
    counted = emit.cast(emit.element("and", near, far), np.float32)
    inside = emit.op("Clip", places, alpha=0.0, beta=float(size - 1))
    low = emit.op("Floor", inside)
    part = emit.op("Sub", inside, low)
    high = emit.op("Min", emit.op("Add", low, emit.constant(1.0)), emit.constant(float(size - 1)))
    rest = emit.op("Sub", emit.constant(1.0), part)
    return [(low, emit.op("Mul", rest, counted)), (high, emit.op("Mul", part, counted))]


def _pixels(emit: Emitter, x: str, batches: str, rows: str, columns: str) -> str:
    """[regions, c, rows, columns] of the image of each region at whole pixels [regions, rows], [regions, columns]."""
    shape = emit.shape(x)
    (count, height), width = emit.shape(rows), emit.shape(columns)[1]
    strides = row_major_strides(shape)
    parts = [
        (emit.reshape(emit.cast(batches, "int64"), (count, 1, 1)), strides[0]),
        (emit.reshape(emit.cast(rows, "int64"), (count, height, 1)), strides[2]),
        (emit.reshape(emit.cast(columns, "int64"), (count, 1, width)), strides[3]),
    ]
    index = ""
    for part, step in parts:
        scaled = emit.op("Mul", part, emit.constant(step, dtype="int64"))
        index = emit.op("Add", index, scaled) if index else scaled
    return emit.op(
        "IndexedRead",
        x,
        index,
        shape=(count, shape[1], height, width),
        strides=(0, strides[1], 0, 0),
        index_strides=(height * width, 0, width, 1),
        component_stride=0,
        limits=((shape[0] - 1) * strides[0] + shape[2] * shape[3],),
        limit_strides=(1,),
    )


def _roi_align(node: OnnxNode, builder: GraphBuilder) -> None:
    emit, x, rois, batches = Emitter(node, builder), node.input(0), node.input(1), node.input(2)
    mode = node.choice("mode", "avg", ("avg", "max"))
    ratio = node.integer("sampling_ratio", 0)
    bins = node.integer("output_height", 1), node.integer("output_width", 1)
    scale, default = node.real("spatial_scale", 1.0), "half_pixel" if node.opset >= 16 else "output_half_pixel"
    half = node.choice("coordinate_transformation_mode", default, ("half_pixel", "output_half_pixel")) == "half_pixel"
    if ratio < 1:
        function, shift, smallest = f"{_FUNCTIONS[mode]}_samples", 0.5 if half else 0.0, 0.0 if half else 1.0
        form = region_form(function, bins, 0, scale, shift, smallest)
        builder.emit(node, "RegionPooling", [x, rois, batches], form, node.output)
        return
    check_size(node, (bins[0] * ratio, bins[1] * ratio))
    shape = builder.shape(x)
    rows = _line(emit, _samples(emit, rois, 1, scale, bins[0], ratio, half), shape[2])
    columns = _line(emit, _samples(emit, rois, 0, scale, bins[1], ratio, half), shape[3])
    count, total = builder.shape(rois)[0], ""
    for row, row_weight in rows:
        for column, column_weight in columns:
            pixels = _pixels(emit, x, batches, row, column)
            weight = emit.op(
                "Mul",
                emit.reshape(row_weight, (count, 1, bins[0] * ratio, 1)),
                emit.reshape(column_weight, (count, 1, 1, bins[1] * ratio)),
            )
            value = emit.op("Mul", pixels, weight)
            # The greatest is taken of the weighted corners themselves, as ONNX defines it.
            joined = "Max" if mode == "max" else "Add"
            total = emit.op(joined, total, value) if total else value
    split = emit.reshape(total, (count * shape[1], bins[0], ratio, bins[1], ratio))
    reduced = emit.reduce("max" if mode == "max" else "mean", split, (2, 4), keepdims=False)
    emit.reshape(reduced, (count, shape[1], *bins), node.output)


def region_form(
    function: str, bins: Sequence[int], samples: int, scale: float, shift: float, smallest: float, grouped: bool = False
) -> dict[str, Any]:
    """Attributes of a RegionPooling."""
    return {
        "function": function,
        "bins": tuple(bins),
        "samples": samples,
        "scale": scale,
        "shift": shift,
        "smallest": smallest,
        "grouped": grouped,
    }


def numbered_regions(emit: Emitter, rois: str) -> tuple[str, str]:
    """Corners [regions, 4] and images [regions] of regions [regions, 5] that begin with their image's number."""
    count, columns = emit.shape(rois)
    if columns != 5:
        raise ModelError(f"{emit.node}: regions of shape {(count, columns)}; an image and four coordinates are needed")
    images = emit.cast(emit.reshape(emit.slice(rois, 1, 0, 1), (count,)), "int64")
    return emit.slice(rois, 1, 1, 5), images


def _max_roi_pool(node: OnnxNode, builder: GraphBuilder) -> None:
    bins, scale = node.integers("pooled_shape"), node.real("spatial_scale", 1.0)
    corners, images = numbered_regions(Emitter(node, builder), node.input(1))
    form = region_form("max_pixels", bins, 0, scale, 0.0, 1.0)
    builder.emit(node, "RegionPooling", [node.input(0), corners, images], form, node.output)


HANDLERS: Mapping[str, Handler] = {"MaxRoiPool": _max_roi_pool, "RoiAlign": _roi_align}
