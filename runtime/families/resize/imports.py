"""Resize and Upsample.

Nearest and bilinear of the last two of four axes have kernels. Anything else is separable too: each axis is a product
with a matrix of weights that is known at conversion, or a choice of elements.
"""

from collections.abc import Mapping, Sequence
from typing import TypeVar

import numpy as np
import onnx

from runtime.errors import ModelError
from runtime.exporters.onnx_writing import OnnxWriting, Writer
from runtime.families.indexing.imports import gather
from runtime.families.resize.definition import RESIZE_COORDINATES, RESIZE_MODES, RESIZE_ROUNDING
from runtime.families.resize.interpolation import COORDINATES, Sampling
from runtime.graph import Node
from runtime.importers.builder import GraphBuilder, check_size
from runtime.importers.emitting import Emitter
from runtime.importers.onnx_node import OnnxNode, normalized_axis
from runtime.importers.registry import Handler
from runtime.semantics.generic import row_major_strides

N = TypeVar("N", int, float)
_POLICIES = ("stretch", "not_larger", "not_smaller")


def _upsample(node: OnnxNode, builder: GraphBuilder) -> None:
    """Imports Upsample, and Resize before opset 11, whose coordinates are asymmetric.

    They are rounded down where an axis grows, up where it shrinks. ONNX says nothing of the latter; ONNX Runtime does
    it so. Axes of both kinds are resized one after the other.
    """
    mode = node.choice("mode", "nearest", RESIZE_MODES)
    scales = node.reals("scales") if node.opset < 9 else _scales(node, builder, 1)
    down, up = Sampling(mode, "asymmetric", "ceil"), Sampling(mode, "asymmetric", "floor")
    shrunk, grown = tuple(min(scale, 1.0) for scale in scales), tuple(max(scale, 1.0) for scale in scales)
    if mode != "nearest" or shrunk in (scales, (1.0,) * len(scales)):
        _emit(node, builder, down if min(scales) < 1 else up, scales, None)
        return
    between = builder.fresh(f"{node.output}/shrunk")
    _emit(node, builder, down, shrunk, None, output=between)
    _emit(node, builder, up, grown, None, source=between)


def _scales(node: OnnxNode, builder: GraphBuilder, index: int) -> tuple[float, ...]:
    return tuple(float(scale) for scale in builder.require_constant(node, index, "scales").reshape(-1))


def _resize(node: OnnxNode, builder: GraphBuilder) -> None:
    if node.opset < 11:
        _upsample(node, builder)
        return
    shape = builder.shape(node.input(0))
    axes = tuple(normalized_axis(node, axis, len(shape)) for axis in node.integers("axes", range(len(shape))))
    sampling = Sampling(
        mode=node.choice("mode", "nearest", (*RESIZE_MODES, "cubic")),
        coordinates=node.choice("coordinate_transformation_mode", "half_pixel", COORDINATES),
        rounding=node.choice("nearest_mode", "round_prefer_floor", RESIZE_ROUNDING),
        antialias=bool(node.integer("antialias", 0)),
        exclude_outside=bool(node.integer("exclude_outside", 0)),
        cubic=node.real("cubic_coeff_a", -0.75),
        extrapolation=node.real("extrapolation_value", 0.0),
        region=_region(node, builder, axes, len(shape)),
    )
    sizes = builder.integers(node, 3, "sizes") if node.optional(3) else ()
    scales = _scales(node, builder, 2) if node.optional(2) and not sizes else ()
    policy = node.choice("keep_aspect_ratio_policy", "stretch", _POLICIES)
    if not len(sizes or scales) == len(axes) or not axes:
        raise ModelError(f"{node}: sizes {list(sizes)} or scales {list(scales)} do not fit axes {list(axes)}")
    if sizes and policy != "stretch":
        choose = min if policy == "not_larger" else max
        ratio = choose(size / shape[axis] for size, axis in zip(sizes, axes, strict=True))
        sizes = tuple(int(ratio * shape[axis] + 0.5) for axis in axes)
        scales = (ratio,) * len(axes)
    all_sizes = _spread(axes, sizes, shape) if sizes else None
    _emit(node, builder, sampling, _spread(axes, scales, (1.0,) * len(shape)), all_sizes, bool(sizes and scales))


def _region(node: OnnxNode, builder: GraphBuilder, axes: Sequence[int], rank: int) -> tuple[tuple[float, float], ...]:
    """Start and end of the region of interest along each axis, as parts of it."""
    whole = [(0.0, 1.0)] * rank
    if node.text("coordinate_transformation_mode", "half_pixel") != "tf_crop_and_resize":
        return tuple(whole)
    values = builder.require_constant(node, 1, "the region of interest").reshape(-1)
    for index, axis in enumerate(axes):
        whole[axis] = float(values[index]), float(values[index + len(axes)])
    return tuple(whole)


def _spread(axes: Sequence[int], values: Sequence[N], rest: Sequence[N]) -> tuple[N, ...]:
    """Values of some axes among those of all."""
    out = list(rest)
    for axis, value in zip(axes, values, strict=False):
        out[axis] = value
    return tuple(out)


def _emit(
    node: OnnxNode,
    builder: GraphBuilder,
    sampling: Sampling,
    scales: Sequence[float],
    sizes: Sequence[int] | None,
    keep_scales: bool = False,
    source: str | None = None,
    output: str | None = None,
) -> None:
    """Adds what resizes a tensor, by default from the node's input to its output."""
    x, y = source or node.input(0), output or node.output
    shape = builder.shape(x)
    if sizes is None:
        if len(scales) != len(shape) or not all(0 < scale < 1e6 for scale in scales):
            raise ModelError(f"{node}: scales {list(scales)} do not fit an input of shape {shape}")
        sizes = [int(np.float32(n) * np.float32(scale)) for n, scale in zip(shape, scales, strict=True)]
    elif not keep_scales:
        scales = [size / n for size, n in zip(sizes, shape, strict=True)]
    if not _has_kernel(builder, x, sampling, sizes):
        _emit_by_axis(Emitter(node, builder), sampling, sizes, scales, x, y)
        return
    attributes = {
        "mode": sampling.mode,
        "coordinate_transformation_mode": sampling.coordinates,
        "nearest_mode": sampling.rounding,
        "sizes": tuple(sizes[2:]),
        "scales": tuple(float(scale) for scale in scales[2:]),
    }
    builder.emit(node, "Resize", [x], attributes, y)


def _has_kernel(builder: GraphBuilder, x: str, sampling: Sampling, sizes: Sequence[int]) -> bool:
    shape = builder.shape(x)
    is_plain = sampling.mode in RESIZE_MODES and sampling.coordinates in RESIZE_COORDINATES and not sampling.antialias
    if sampling.mode == "linear" and sampling.exclude_outside:
        return False
    return is_plain and builder.dtype(x) == np.float32 and len(shape) == 4 and tuple(sizes[:2]) == shape[:2]


def _emit_by_axis(
    emit: Emitter, sampling: Sampling, sizes: Sequence[int], scales: Sequence[float], x: str, output: str
) -> None:
    node, builder = emit.node, emit.builder
    check_size(node, sizes)
    outside = np.zeros(tuple(sizes), bool)
    for axis, (size, scale) in enumerate(zip(sizes, scales, strict=True)):
        extent = builder.shape(x)[axis]
        if size == extent and scale == 1 and sampling.region[axis] == (0.0, 1.0):
            continue
        places = sampling.places(extent, size, scale, axis)
        if sampling.coordinates == "tf_crop_and_resize":
            beyond = (places < 0) | (places > extent - 1)
            outside |= beyond.reshape([-1 if at == axis else 1 for at in range(len(sizes))])
        if sampling.mode == "nearest":
            chosen = emit.constant(sampling.nearest(extent, size, scale, axis), dtype="int64")
            x = gather(node, builder, x, chosen, axis)
        else:
            x = _weighted(emit, x, sampling.weights(places, extent, scale), axis)
    if outside.any():
        value = emit.constant(sampling.extrapolation, like=x)
        emit.element("where", emit.constant(outside, dtype="bool"), value, x, output=output)
        return
    emit.op("Identity", x, output=output)


def _weighted(emit: Emitter, x: str, weights: np.ndarray[tuple[int, ...], np.dtype[np.float64]], axis: int) -> str:
    """Product of each line along an axis with the weights [outputs, inputs]."""
    shape = emit.shape(x)
    strides, (outputs, inputs) = row_major_strides(shape), weights.shape
    dtype = emit.builder.dtype(x)
    product = emit.op(
        "StridedProduct",
        emit.cast(x, np.float32),
        emit.constant(weights),
        shape=(*shape[:axis], outputs, *shape[axis + 1 :]),
        summed=(inputs,),
        a_strides=(*strides[:axis], 0, *strides[axis + 1 :], strides[axis]),
        b_strides=(*(0,) * axis, inputs, *(0,) * (len(shape) - axis - 1), 1),
    )
    return emit.cast(product, dtype)


HANDLERS: Mapping[str, Handler] = {"Resize": _resize, "Upsample": _upsample}


def _write_resize(writing: OnnxWriting, node: Node) -> onnx.NodeProto:
    """Writes the output's sizes where the scales follow from them, else the scales, from which the sizes follow."""
    shape, attributes = writing.graph.shape(node.inputs[0]), dict(node.attrs)
    sizes, scales = attributes.pop("sizes"), attributes.pop("scales")
    if scales == tuple(size / n for size, n in zip(sizes, shape[2:], strict=True)):
        inputs = ["", "", writing.constant(node, "sizes", np.asarray([*shape[:2], *sizes], np.int64))]
    else:
        inputs = ["", writing.constant(node, "scales", np.asarray([1, 1, *scales], np.float32))]
    return writing.plain(node, "Resize", [node.inputs[0], *inputs], **attributes)


WRITERS: Mapping[str, Writer] = {"Resize": _write_resize}
