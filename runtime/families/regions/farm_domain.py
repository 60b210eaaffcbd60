"""Operators of the project's own domain that ONNX lacks: parts of R-CNN.

PSROIPooling(x, rois; group_size, spatial_scale)
PSROIAlign(x, rois; group_size, spatial_scale, sampling_ratio)
    [regions, c, group_size, group_size] of channels (c, bin): the mean of each bin's own channels within regions
    (image, x low, y low, x high, y high), of whole pixels or of samples (sampling_ratio 0: one a pixel)
Proposal(scores, moves, image; feature_stride, base_size, ratios, scales, before, after, threshold, smallest)
    the `after` regions (0, x low, y low, x high, y high) of Faster R-CNN, and their scores; those behind the last
    one are 0. scores [1, 2 anchors, h, w], moves [1, 4 anchors, h, w], image [1, 3]: height, width, scale
"""

import math
from collections.abc import Mapping

import numpy as np

from runtime.errors import ModelError
from runtime.families.indexing.imports import gather
from runtime.families.regions.imports import numbered_regions, region_form
from runtime.graph import Array
from runtime.importers.builder import GraphBuilder
from runtime.importers.emitting import Emitter
from runtime.importers.images import image_shape
from runtime.importers.onnx_node import OnnxNode
from runtime.importers.registry import Handler

SMALLEST = 0.1  # of a region, in pixels (R-FCN)


def _grouped_regions(function: str) -> Handler:
    def handle(node: OnnxNode, builder: GraphBuilder) -> None:
        size, scale = node.integer("group_size", 1), node.real("spatial_scale", 1.0)
        samples = node.integer("sampling_ratio", 0) if function == "mean_samples" else 0
        corners, images = numbered_regions(Emitter(node, builder), node.input(1))
        form = region_form(function, (size, size), samples, scale, 0.0, SMALLEST, grouped=True)
        builder.emit(node, "RegionPooling", [node.input(0), corners, images], form, node.output)

    return handle


def anchors(base: int, ratios: tuple[float, ...], scales: tuple[float, ...]) -> Array:
    """Corners [ratios * scales, 4] round the first pixel, rounded as Faster R-CNN rounds them."""
    centre, found = (base - 1) / 2, []
    for ratio in ratios:
        width = np.round(math.sqrt(base * base / ratio))
        height = np.round(width * ratio)
        for scale in scales:
            half = (width * scale - 1) / 2, (height * scale - 1) / 2
            found.append([centre - half[0], centre - half[1], centre + half[0], centre + half[1]])
    return np.asarray(found)


def _proposal(node: OnnxNode, builder: GraphBuilder) -> None:
    emit, shape = Emitter(node, builder), image_shape(node, builder)
    own = anchors(
        node.integer("base_size", 16), node.reals("ratios", (0.5, 1.0, 2.0)), node.reals("scales", (8.0, 16.0, 32.0))
    )
    each, pixels = len(own), shape[2] * shape[3]
    if shape[:2] != (1, 2 * each) or image_shape(node, builder, 1) != (1, 4 * each, *shape[2:]):
        raise ModelError(f"{node}: scores of shape {shape} and moves do not fit {each} anchors of one image")
    stride = node.integer("feature_stride", 16)
    y, x = (np.arange(size) * stride for size in shape[2:])
    places = np.stack(np.broadcast_arrays(x[None, :], y[:, None]) * 2, axis=-1).reshape(pixels, 1, 4)
    boxes = _boxes(emit, (places + own).reshape(-1, 4), each)
    height, width, scale = (emit.reshape(emit.slice(node.input(2), 1, at, at + 1), (1, 1)) for at in range(3))
    last = emit.op("Sub", emit.op("Join", width, height, width, height, axis=1), emit.constant(1))
    boxes = emit.op("Max", emit.op("Min", boxes, last), emit.constant(0))
    scores = emit.slice(node.input(0), 1, each, 2 * each)
    scores = emit.reshape(emit.transpose(scores, (0, 2, 3, 1)), (pixels * each,))
    least = emit.op("Mul", scale, emit.constant(node.integer("smallest", 16)))
    _keep(emit, boxes, _of_size(emit, boxes, scores, least))


def _boxes(emit: Emitter, own: Array, each: int) -> str:
    """Corners [boxes, 4] of the moved anchors."""
    moves, shape = emit.node.input(1), emit.shape(emit.node.input(1))
    moves = emit.reshape(moves, (each, 4, *shape[2:]))
    moves = emit.reshape(emit.transpose(moves, (2, 3, 0, 1)), (len(own), 4))
    size = own[:, 2:] - own[:, :2] + 1
    centre = emit.op("Mul", emit.slice(moves, 1, 0, 2), emit.constant(size))
    centre = emit.op("Add", centre, emit.constant(own[:, :2] + size / 2))
    half = emit.op("Mul", emit.op("Exp", emit.slice(moves, 1, 2, 4)), emit.constant(size / 2))
    return emit.op("Join", emit.op("Sub", centre, half), emit.op("Add", centre, half), axis=1)


def _of_size(emit: Emitter, boxes: str, scores: str, least: str) -> str:
    """The scores; those of boxes that are too small are lower than all others."""
    size = emit.op("Sub", emit.slice(boxes, 1, 2, 4), emit.slice(boxes, 1, 0, 2))
    smaller = emit.reduce("min", emit.op("Add", size, emit.constant(1)), (1,), keepdims=False)
    enough = emit.element("greater_or_equal", smaller, emit.reshape(least, (1,)), dtype="bool")
    return emit.element("where", enough, scores, emit.constant(-np.inf))


def _keep(emit: Emitter, boxes: str, scores: str) -> None:
    """The best boxes that overlap no better one; they end behind their last pixel, and so count it."""
    node, count = emit.node, emit.shape(scores)[0]
    before, after = min(node.integer("before", 6000), count), node.integer("after", 300)
    threshold = emit.constant(np.full(1, node.real("threshold", 0.7)))
    order = emit.op("Sorting", scores, axis=0, count=before, largest=True, positions=True)
    boxes, scores = (gather(node, emit.builder, x, order, 0) for x in (boxes, scores))
    ended = emit.reshape(emit.op("Add", boxes, emit.constant(np.asarray([0, 0, 1, 1]))), (1, before, 4))
    each = emit.reshape(scores, (1, 1, before))
    none = emit.constant(np.full(1, -np.inf))
    kept = emit.op("Suppression", ended, each, threshold, none, count=min(before, after), centred=False, dtype="int64")
    emit.builder.graph.padded.append(node.name)
    chosen = emit.flat(kept)
    found = emit.element("greater_or_equal", chosen, emit.constant(0, dtype="int64"), dtype="bool")
    rows = emit.shape(chosen)[0]
    column = emit.reshape(found, (rows, 1))
    corners = emit.element("where", column, gather(node, emit.builder, boxes, chosen, 0), emit.constant(0))
    emit.op("Join", emit.constant(np.zeros((rows, 1))), corners, axis=1, output=node.output)
    if len(node.outputs) > 1 and node.outputs[1]:
        best = gather(node, emit.builder, scores, chosen, 0)
        emit.element("where", found, best, emit.constant(0), output=node.outputs[1])


FARM_HANDLERS: Mapping[str, Handler] = {
    "PSROIPooling": _grouped_regions("mean_pixels"),
    "PSROIAlign": _grouped_regions("mean_samples"),
    "Proposal": _proposal,
}
