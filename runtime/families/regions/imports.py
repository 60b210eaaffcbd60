"""RoiAlign and MaxRoiPool: regions of interest, known at run time, sampled or pooled into a grid of fixed size."""

from collections.abc import Mapping, Sequence
from typing import Any

from runtime.errors import ModelError
from runtime.importers.builder import GraphBuilder
from runtime.importers.emitting import Emitter
from runtime.importers.onnx_node import OnnxNode
from runtime.importers.registry import Handler
from runtime.semantics.generic import MAX_SAMPLES

_FUNCTIONS = {"avg": "mean", "max": "max"}


def _roi_align(node: OnnxNode, builder: GraphBuilder) -> None:
    mode = node.choice("mode", "avg", ("avg", "max"))
    ratio = max(node.integer("sampling_ratio", 0), 0)
    bins = node.integer("output_height", 1), node.integer("output_width", 1)
    scale, default = node.real("spatial_scale", 1.0), "half_pixel" if node.opset >= 16 else "output_half_pixel"
    half = node.choice("coordinate_transformation_mode", default, ("half_pixel", "output_half_pixel")) == "half_pixel"
    if ratio > MAX_SAMPLES:
        raise node.unsupported("sampling_ratio", ratio, f"up to {MAX_SAMPLES}")
    shift, smallest = (0.5, 0.0) if half else (0.0, 1.0)
    form = region_form(f"{_FUNCTIONS[mode]}_samples", bins, ratio, scale, shift, smallest)
    builder.emit(node, "RegionPooling", [node.input(0), node.input(1), node.input(2)], form, node.output)


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
