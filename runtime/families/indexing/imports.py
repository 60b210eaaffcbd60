"""Gather and its kin: elements whose place a tensor of indices tells, constant or computed at run time."""

import math
from collections.abc import Mapping, Sequence

import numpy as np

from runtime.errors import ModelError
from runtime.importers.builder import GraphBuilder
from runtime.importers.emitting import Emitter
from runtime.importers.onnx_node import OnnxNode, normalized_axis
from runtime.importers.registry import Handler
from runtime.semantics.generic import row_major_strides
from runtime.semantics.generic_forms import gather_form


def check_indices(node: OnnxNode, builder: GraphBuilder, indices: str, sizes: Sequence[int], first_axis: int) -> None:
    """Raises ModelError where a constant index is outside of its axis; a negative one counts from the end.

    `sizes`: extents of the axes that the indices count, the first of which is `first_axis`; several take turns.
    """
    value = builder.constant(indices)
    if value is None:
        return
    limits = np.asarray(sizes, np.int64)
    wrong = np.argwhere((value < -limits) | (value >= limits))
    if wrong.size:
        place = tuple(wrong[0])
        at = int(place[-1]) if len(sizes) > 1 else 0
        raise ModelError(
            f"{node}: index {value[place]} of '{indices}' is outside of axis {first_axis + at},"
            f" which has {sizes[at]} element(s)"
        )


def gather(node: OnnxNode, builder: GraphBuilder, x: str, indices: str, axis: int, output: str | None = None) -> str:
    """Adds x with the indices' shape in place of an axis."""
    check_indices(node, builder, indices, (builder.shape(x)[axis],), axis)
    attributes = gather_form(builder.shape(x), builder.shape(indices), axis)
    return builder.emit(node, "IndexedRead", [x, indices], attributes, output)


def _gather(node: OnnxNode, builder: GraphBuilder) -> None:
    x, indices = node.input(0), node.input(1)
    axis = normalized_axis(node, node.integer("axis", 0), len(builder.shape(x)))
    if not _take_one(node, builder, axis):
        gather(node, builder, x, indices, axis, node.output)


def _take_one(node: OnnxNode, builder: GraphBuilder, axis: int) -> bool:
    """Adds a Slice where there is one index, a constant; devices have kernels for it."""
    emit, shape, chosen = Emitter(node, builder), builder.shape(node.input(0)), builder.constant(node.input(1))
    if chosen is None or chosen.size != 1:
        return False
    check_indices(node, builder, node.input(1), (shape[axis],), axis)
    index = int(chosen.reshape(-1)[0]) % shape[axis]
    part = emit.slice(node.input(0), axis, index, index + 1)
    emit.reshape(part, (*shape[:axis], *chosen.shape, *shape[axis + 1 :]), node.output)
    return True


def along_axis(shape: tuple[int, ...], indices: tuple[int, ...], axis: int) -> dict[str, object]:
    """Attributes of an indexed operator whose index of each position counts one axis."""
    strides = row_major_strides(shape)
    return {
        "shape": indices,
        "strides": tuple(0 if at == axis else step for at, step in enumerate(strides)),
        "index_strides": row_major_strides(indices),
        "component_stride": 0,
        "limits": (shape[axis],),
        "limit_strides": (strides[axis],),
    }


def _gather_elements(node: OnnxNode, builder: GraphBuilder) -> None:
    x, indices = node.input(0), node.input(1)
    shape = builder.shape(x)
    axis = normalized_axis(node, node.integer("axis", 0), len(shape))
    check_indices(node, builder, indices, (shape[axis],), axis)
    attributes = along_axis(shape, builder.shape(indices), axis)
    builder.emit(node, "IndexedRead", [x, indices], attributes, node.output)


def tuples(node: OnnxNode, builder: GraphBuilder, batch: int = 0) -> dict[str, object]:
    """Attributes of an indexed operator whose last axis of indices counts the axes behind the batch."""
    shape, indices = builder.shape(node.input(0)), builder.shape(node.input(1))
    count, strides = indices[-1], row_major_strides(shape)
    if count + batch > len(shape):
        raise ModelError(f"{node}: indices of shape {indices} for a tensor of shape {shape}")
    check_indices(node, builder, node.input(1), shape[batch : batch + count], batch)
    outer, slice_ = indices[batch:-1], shape[batch + count :]
    index_strides = row_major_strides(indices)
    return {
        "shape": (*shape[:batch], *outer, *slice_),
        "strides": (*strides[:batch], *(0,) * len(outer), *strides[batch + count :]),
        "index_strides": (*index_strides[:-1], *(0,) * len(slice_)),
        "component_stride": 1,
        "limits": shape[batch : batch + count],
        "limit_strides": strides[batch : batch + count],
    }


def _gather_nd(node: OnnxNode, builder: GraphBuilder) -> None:
    attributes = tuples(node, builder, node.integer("batch_dims", 0))
    builder.emit(node, "IndexedRead", [node.input(0), node.input(1)], attributes, node.output)


def _reverse_sequence(node: OnnxNode, builder: GraphBuilder) -> None:
    """The place of each element along the time axis: mirrored within its sequence's length, its own behind it."""
    emit, x, lengths = Emitter(node, builder), node.input(0), node.input(1)
    shape = builder.shape(x)
    batch_axis, time_axis = node.integer("batch_axis", 1), node.integer("time_axis", 0)
    kept = tuple(size if axis in (batch_axis, time_axis) else 1 for axis, size in enumerate(shape))
    time = np.arange(shape[time_axis]).reshape([-1 if axis == time_axis else 1 for axis in range(len(shape))])
    position = emit.constant(time, dtype="int64")
    length = emit.reshape(lengths, [shape[batch_axis] if axis == batch_axis else 1 for axis in range(len(shape))])
    mirrored = emit.element("sub", emit.element("sub", length, position), emit.constant(1, dtype="int64"))
    inside = emit.element("less", position, length, dtype="bool")
    places = emit.element("where", inside, mirrored, position)
    places = emit.expand(emit.expand(places, kept), shape)
    builder.emit(node, "IndexedRead", [x, places], along_axis(shape, shape, time_axis), node.output)


def _compress(node: OnnxNode, builder: GraphBuilder) -> None:
    """With a constant condition: which elements stay is known."""
    chosen = np.flatnonzero(builder.require_constant(node, 1, "the condition"))
    x = node.input(0)
    emit = Emitter(node, builder)
    if not node.has("axis"):
        x, axis = emit.flat(x), 0
    else:
        axis = normalized_axis(node, node.integer("axis", 0), len(builder.shape(x)))
    gather(node, builder, x, emit.constant(chosen, dtype="int64"), axis, node.output)


def _array_feature_extractor(node: OnnxNode, builder: GraphBuilder) -> None:
    x, indices = node.input(0), node.input(1)
    flat = Emitter(node, builder).reshape(indices, (math.prod(builder.shape(indices)),))
    gather(node, builder, x, flat, len(builder.shape(x)) - 1, node.output)


HANDLERS: Mapping[str, Handler] = {
    "Gather": _gather,
    "GatherElements": _gather_elements,
    "GatherND": _gather_nd,
    "ReverseSequence": _reverse_sequence,
    "Compress": _compress,
    "ArrayFeatureExtractor": _array_feature_extractor,
}
