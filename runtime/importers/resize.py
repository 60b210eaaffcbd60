"""Resize and Upsample of the spatial axes, nearest and bilinear."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

import numpy as np

from runtime.errors import ModelError
from runtime.importers.builder import GraphBuilder
from runtime.importers.normalization import normalized_axis
from runtime.importers.onnx_node import OnnxNode
from runtime.importers.registry import Handler
from runtime.operators import RESIZE_COORDINATES, RESIZE_MODES, RESIZE_ROUNDING

N = TypeVar("N", int, float)


def _upsample(node: OnnxNode, builder: GraphBuilder) -> None:
    """Imports Upsample, and Resize before opset 11: their coordinates are asymmetric and rounded down."""
    mode = node.choice("mode", "nearest", RESIZE_MODES)
    scales = node.reals("scales") if node.opset < 9 else _scales(node, builder, 1)
    _emit(node, builder, mode, "asymmetric", "floor", scales, None)


def _scales(node: OnnxNode, builder: GraphBuilder, index: int) -> tuple[float, ...]:
    return tuple(float(scale) for scale in builder.require_constant(node, index, "scales").reshape(-1))


def _resize(node: OnnxNode, builder: GraphBuilder) -> None:
    if node.opset < 11:
        _upsample(node, builder)
        return
    mode = node.choice("mode", "nearest", RESIZE_MODES)
    coordinates = node.choice("coordinate_transformation_mode", "half_pixel", RESIZE_COORDINATES)
    rounding = node.choice("nearest_mode", "round_prefer_floor", RESIZE_ROUNDING)
    node.choice("keep_aspect_ratio_policy", "stretch", ("stretch",))
    node.only("antialias", 0)
    node.only("exclude_outside", 0)
    for name in ("cubic_coeff_a", "extrapolation_value"):  # of other modes
        node.real(name, 0.0)
    shape = builder.shape(node.input(0))
    axes = tuple(normalized_axis(node, axis, len(shape)) for axis in node.integers("axes", range(len(shape))))
    sizes = builder.integers(node, 3, "sizes") if node.optional(3) else ()
    scales = _scales(node, builder, 2) if node.optional(2) and not sizes else ()
    if not len(sizes or scales) == len(axes) or not axes:
        raise ModelError(f"{node}: sizes {list(sizes)} or scales {list(scales)} do not fit axes {list(axes)}")
    all_sizes = _spread(axes, sizes, shape) if sizes else None
    _emit(node, builder, mode, coordinates, rounding, _spread(axes, scales, (1.0,) * len(shape)), all_sizes)


def _spread(axes: Sequence[int], values: Sequence[N], rest: Sequence[N]) -> tuple[N, ...]:
    """Returns `rest`, a value for each axis, with `values` in the places of `axes`."""
    out = list(rest)
    for axis, value in zip(axes, values, strict=False):
        out[axis] = value
    return tuple(out)


def _emit(
    node: OnnxNode,
    builder: GraphBuilder,
    mode: str,
    coordinates: str,
    rounding: str,
    scales: Sequence[float],
    sizes: Sequence[int] | None,
) -> None:
    shape = builder.shape(node.input(0))
    if sizes is None:
        if len(scales) != len(shape) or not all(0 < scale < 1e6 for scale in scales):
            raise ModelError(f"{node}: scales {list(scales)} do not fit an input of shape {shape}")
        sizes = [int(np.float32(n) * np.float32(scale)) for n, scale in zip(shape, scales, strict=True)]
    else:
        scales = [size / n for size, n in zip(sizes, shape, strict=True)]
    if len(shape) != 4 or tuple(sizes[:2]) != shape[:2]:
        raise node.unsupported("output size", tuple(sizes), f"the last two of four axes change; the input is {shape}")
    attributes = {
        "mode": mode,
        "coordinate_transformation_mode": coordinates,
        "nearest_mode": rounding,
        "sizes": tuple(sizes[2:]),
        "scales": tuple(float(scale) for scale in scales[2:]),
    }
    builder.emit(node, "Resize", [node.input(0)], attributes, node.output)


OPERATORS: Mapping[str, Handler] = {"Resize": _resize, "Upsample": _upsample}
