"""Layers that move elements: Concat, Slice, Split, Crop, Reshape, Flatten, Permute, Tile, ShuffleChannel."""

import itertools
import math
from collections.abc import Mapping, Sequence

from runtime.importers.caffe.layer_import import Handler, LayerImport
from runtime.importers.caffe.onnx_writer import MAX_AXES, Shape


def _concat(layer: LayerImport) -> None:
    parameters, shape = layer.parameters("concat_param"), layer.shape() if layer.inputs else ()
    if len(layer.outputs) != 1 or not layer.inputs:
        layer.expect(1)
    axis = layer.axis(parameters.concat_dim if parameters.HasField("concat_dim") else parameters.axis)
    shapes = [layer.shape(index) for index in range(len(layer.inputs))]
    for other in shapes:
        if len(other) != len(shape) or _without(other, axis) != _without(shape, axis):
            raise layer.error(f"shapes {shape} and {other} do not concatenate along axis {axis}")
    out = (*shape[:axis], sum(other[axis] for other in shapes), *shape[axis + 1 :])
    layer.result("Concat", layer.inputs, out, axis=axis)


def _without(shape: Shape, axis: int) -> Shape:
    return shape[:axis] + shape[axis + 1 :]


def _slice(layer: LayerImport) -> None:
    parameters, shape, count = layer.parameters("slice_param"), layer.shape(), len(layer.outputs)
    layer.expect(1, count)
    axis = layer.axis(parameters.slice_dim if parameters.HasField("slice_dim") else parameters.axis)
    points = list(parameters.slice_point)
    if not points and shape[axis] % count == 0:
        points = [shape[axis] // count * index for index in range(1, count)]
    bounds = [0, *points, shape[axis]]
    sizes = [end - start for start, end in itertools.pairwise(bounds)]
    if len(sizes) != count or min(sizes) < 1:
        raise layer.error(f"slice_point {points} do not slice axis {axis} of {shape} into {count} tops")
    shapes = [(*shape[:axis], size, *shape[axis + 1 :]) for size in sizes]
    layer.results("Split", [layer.inputs[0], layer.constant("sizes", sizes)], shapes, axis=axis)


def _split(layer: LayerImport) -> None:
    layer.expect(1, len(layer.outputs))
    for index in range(len(layer.outputs)):
        layer.result("Identity", layer.inputs, index=index)


def _crop(layer: LayerImport) -> None:
    """The first bottom cut to the sizes of the second from `axis` on, with one offset for all or one for each axis."""
    layer.expect(2)
    parameters, shape, wanted = layer.parameters("crop_param"), layer.shape(), layer.shape(1)
    axis = layer.axis(parameters.axis)
    axes = list(range(axis, len(shape)))
    if len(wanted) != len(shape):
        raise layer.error(f"its bottoms have the shapes {shape} and {wanted}; the same number of axes is needed")
    if len(parameters.offset) > 1 and len(parameters.offset) != len(axes):
        raise layer.error(f"{len(parameters.offset)} offsets for {len(axes)} axes")
    offsets = list(parameters.offset) or [0]
    starts = offsets * len(axes) if len(offsets) == 1 else offsets
    ends = [start + wanted[at] for start, at in zip(starts, axes, strict=True)]
    if any(end > shape[at] for end, at in zip(ends, axes, strict=True)):
        raise layer.error(f"offset {offsets} and sizes {wanted} reach beyond its bottom of shape {shape}")
    bounds = [layer.constant(what, values) for what, values in (("starts", starts), ("ends", ends), ("axes", axes))]
    layer.result("Slice", [layer.inputs[0], *bounds], (*shape[:axis], *wanted[axis:]))


def _reshape(layer: LayerImport) -> None:
    """Replaces the axes from `axis` on, `num_axes` of them: 0 keeps a size, -1 takes what is left."""
    layer.expect(1)
    parameters, shape = layer.parameters("reshape_param"), layer.shape()
    if len(parameters.shape.dim) > MAX_AXES:
        raise layer.error(f"a shape of {len(parameters.shape.dim)} axes; Caffe's limit is {MAX_AXES}")
    axis = layer.axis(parameters.axis if parameters.axis >= 0 else parameters.axis + 1 + len(shape), len(shape) + 1)
    end = len(shape) if parameters.num_axes == -1 else axis + parameters.num_axes
    if not axis <= end <= len(shape):
        raise layer.error(f"num_axes is {parameters.num_axes}, from axis {axis} of a bottom of shape {shape}")
    sizes = [_kept(layer, axis + at) if size == 0 else size for at, size in enumerate(parameters.shape.dim)]
    out = [*shape[:axis], *sizes, *shape[end:]]
    if out.count(-1) > 1 or min(out, default=1) < -1:
        raise layer.error(f"shape {list(parameters.shape.dim)} is none to reshape to")
    if -1 in out:
        out[out.index(-1)] = math.prod(shape) // max(1, -math.prod(out))
    layer.result_reshaped(layer.inputs[0], tuple(out))


def _kept(layer: LayerImport, axis: int) -> int:
    if axis >= len(layer.shape()):
        raise layer.error(f"its shape keeps axis {axis}, which a bottom of shape {layer.shape()} lacks")
    return layer.shape()[axis]


def _flatten(layer: LayerImport) -> None:
    layer.expect(1)
    parameters, shape = layer.parameters("flatten_param"), layer.shape()
    start, end = layer.axis(parameters.axis), layer.axis(parameters.end_axis)
    if end < start:
        raise layer.error(f"end_axis {parameters.end_axis} lies before axis {parameters.axis}")
    layer.result_reshaped(layer.inputs[0], (*shape[:start], math.prod(shape[start : end + 1]), *shape[end + 1 :]))


def _permute(layer: LayerImport) -> None:
    """Transposes; axes that the order does not name follow in their own order."""
    layer.expect(1)
    given, shape = list(layer.parameters("permute_param").order), layer.shape()
    if len(set(given)) != len(given) or max(given, default=0) >= len(shape):
        raise layer.error(f"order {given} does not permute the axes of a bottom of shape {shape}")
    order = [*given, *(axis for axis in range(len(shape)) if axis not in given)]
    layer.result("Transpose", layer.inputs, tuple(shape[axis] for axis in order), perm=order)


def _tile(layer: LayerImport) -> None:
    layer.expect(1)
    parameters, shape = layer.parameters("tile_param"), layer.shape()
    axis = layer.axis(parameters.axis)
    if parameters.tiles < 1:
        raise layer.error(f"tiles is {parameters.tiles}; at least 1 is needed")
    repeats = [parameters.tiles if index == axis else 1 for index in range(len(shape))]
    layer.result("Tile", [layer.inputs[0], layer.constant("repeats", repeats)], _product(shape, repeats))


def _product(shape: Shape, repeats: Sequence[int]) -> Shape:
    return tuple(size * count for size, count in zip(shape, repeats, strict=True))


def _shuffle_channel(layer: LayerImport) -> None:
    layer.expect(1)
    n, c, h, w = layer.expect_image()
    group = layer.parameters("shuffle_channel_param").group
    if not 1 <= group <= c or c % group:
        raise layer.error(f"{c} channels do not split into {group} group(s)")
    grouped = layer.reshape(layer.inputs[0], (n, group, c // group, h, w))
    shuffled = layer.step("Transpose", [grouped], (n, c // group, group, h, w), perm=[0, 2, 1, 3, 4])
    layer.result_reshaped(shuffled, (n, c, h, w))


LAYERS: Mapping[str, Handler] = {
    "Concat": _concat,
    "Crop": _crop,
    "Flatten": _flatten,
    "Permute": _permute,
    "Reshape": _reshape,
    "ShuffleChannel": _shuffle_channel,
    "Slice": _slice,
    "Split": _split,
    "Tile": _tile,
}
