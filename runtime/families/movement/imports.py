"""Operators that move elements: Reshape and its kin, Transpose, Concat, Slice, Split, Pad."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx

from runtime.errors import ModelError
from runtime.exporters.onnx_writing import OnnxWriting, Writer, write_same
from runtime.families.indexing.imports import gather
from runtime.families.movement.definition import PAD_MODES
from runtime.graph import Node
from runtime.importers.builder import GraphBuilder, check_size
from runtime.importers.emitting import Emitter
from runtime.importers.onnx_node import OnnxNode, normalized_axis, value_text
from runtime.importers.registry import Handler
from runtime.semantics.generic import row_major_strides
from runtime.semantics.generic_forms import generic_form

_PAD_RANK = 4
_NUMPY_MODES: Mapping[str, Any] = {"reflect": "reflect", "edge": "edge", "wrap": "wrap"}

_INT64_MIN = int(np.iinfo(np.int64).min)


def _reshape(node: OnnxNode, builder: GraphBuilder) -> None:
    shape, requested = builder.shape(node.input(0)), builder.integers(node, 1, "shape")
    keep_zero = bool(node.integer("allowzero", 0)) and node.opset >= 14
    out = [_kept(node, shape, axis) if n == 0 and not keep_zero else n for axis, n in enumerate(requested)]
    if out.count(-1) > 1 or min(out, default=0) < -1:
        raise ModelError(f"{node}: shape {list(requested)} is not a shape to reshape to")
    if -1 in out:
        known_size = -math.prod(out)
        out[out.index(-1)] = math.prod(shape) // known_size if known_size else 0
    builder.emit(node, "Reshape", [node.input(0)], {"shape": tuple(out)}, node.output)


def _kept(node: OnnxNode, shape: tuple[int, ...], axis: int) -> int:
    if axis >= len(shape):
        raise ModelError(f"{node}: shape keeps axis {axis}, which an input of shape {shape} lacks")
    return shape[axis]


def _flatten(node: OnnxNode, builder: GraphBuilder) -> None:
    shape, axis = builder.shape(node.input(0)), node.integer("axis", 1)
    if axis != len(shape):
        axis = normalized_axis(node, axis, len(shape))
    matrix = (math.prod(shape[:axis]), math.prod(shape[axis:]))
    builder.emit(node, "Reshape", [node.input(0)], {"shape": matrix}, node.output)


def _axes(node: OnnxNode, builder: GraphBuilder, first_opset_with_input: int) -> tuple[int, ...]:
    if node.opset < first_opset_with_input:
        return node.integers("axes")
    return builder.integers(node, 1, "axes") if node.optional(1) else ()


def _squeeze(node: OnnxNode, builder: GraphBuilder) -> None:
    shape = builder.shape(node.input(0))
    axes = {normalized_axis(node, axis, len(shape)) for axis in _axes(node, builder, 13)}
    if any(shape[axis] != 1 for axis in axes):
        raise ModelError(f"{node}: axes {sorted(axes)} of an input of shape {shape} are not all 1")
    dropped = axes or {axis for axis, size in enumerate(shape) if size == 1}
    out = tuple(size for axis, size in enumerate(shape) if axis not in dropped)
    builder.emit(node, "Reshape", [node.input(0)], {"shape": out}, node.output)


def _unsqueeze(node: OnnxNode, builder: GraphBuilder) -> None:
    shape, new_axes = builder.shape(node.input(0)), _axes(node, builder, 13)
    rank = len(shape) + len(new_axes)
    axes = {normalized_axis(node, axis, rank) for axis in new_axes}
    if len(axes) != len(new_axes):
        raise ModelError(f"{node}: axes {list(new_axes)} name one axis twice")
    sizes = iter(shape)
    out = tuple(1 if axis in axes else next(sizes) for axis in range(rank))
    builder.emit(node, "Reshape", [node.input(0)], {"shape": out}, node.output)


def _transpose(node: OnnxNode, builder: GraphBuilder) -> None:
    rank = len(builder.shape(node.input(0)))
    perm = node.integers("perm", tuple(reversed(range(rank))))
    builder.emit(node, "Transpose", [node.input(0)], {"perm": perm}, node.output)


def _concat(node: OnnxNode, builder: GraphBuilder) -> None:
    inputs = [node.input(index) for index in range(max(1, len(node.inputs)))]
    axis = normalized_axis(node, node.integer("axis", 0), len(builder.shape(inputs[0])))
    inputs = [name for name in inputs if builder.shape(name)[axis : axis + 1] != (0,)] or inputs[:1]  # parts that add
    if len(inputs) == 1:
        builder.emit(node, "Identity", inputs, {}, node.output)
        return
    builder.emit(node, "Concat", inputs, {"axis": axis}, node.output)


def _slice(node: OnnxNode, builder: GraphBuilder) -> None:
    steps: tuple[int, ...] = ()
    if node.opset < 10:
        starts, ends = node.integers("starts"), node.integers("ends")
        axes = node.integers("axes")
    else:
        starts, ends = builder.integers(node, 1, "starts"), builder.integers(node, 2, "ends")
        axes = builder.integers(node, 3, "axes") if node.optional(3) else ()
        steps = builder.integers(node, 4, "steps") if node.optional(4) else ()
    axes, steps = axes or tuple(range(len(starts))), steps or (1,) * len(starts)
    if not len(starts) == len(ends) == len(axes) == len(steps) or 0 in steps:
        raise ModelError(f"{node}: starts {starts}, ends {ends}, axes {axes} and steps {steps} do not fit")
    shape = builder.shape(node.input(0))
    ranges = {}
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        axis = normalized_axis(node, axis, len(shape))
        ranges[axis] = _range(start, end, step, shape[axis])
    _emit_slice(node, builder, ranges, node.output)


def _range(start: int, end: int, step: int, extent: int) -> range:
    """Clamps a slice as ONNX does; unlike Python's slices, one with a negative step starts at index 0 at least."""
    start, end = (bound + extent if bound < 0 else bound for bound in (start, end))
    last = extent if step > 0 else extent - 1
    return range(min(max(start, 0), last), min(max(end, last - extent), last), step)


def _emit_slice(node: OnnxNode, builder: GraphBuilder, ranges: Mapping[int, range], output: str) -> None:
    shape = builder.shape(node.input(0))
    sliced = {axis: ranges[axis] for axis in sorted(ranges) if ranges[axis] != range(shape[axis])}
    if not sliced:
        builder.emit(node, "Identity", [node.input(0)], {}, output)
        return
    attributes = {
        "starts": tuple(part.start for part in sliced.values()),
        "ends": tuple(part.stop for part in sliced.values()),
        "axes": tuple(sliced),
        "steps": tuple(part.step for part in sliced.values()),
    }
    builder.emit(node, "Slice", [node.input(0)], attributes, output)


def _split(node: OnnxNode, builder: GraphBuilder) -> None:
    shape = builder.shape(node.input(0))
    axis = normalized_axis(node, node.integer("axis", 0), len(shape))
    sizes = _split_sizes(node, builder, shape[axis])
    start = 0
    for size, output in zip(sizes, node.outputs, strict=True):
        if output:
            _emit_slice(node, builder, {axis: range(start, start + size)}, output)
        start += size


def _split_sizes(node: OnnxNode, builder: GraphBuilder, extent: int) -> Sequence[int]:
    if node.opset < 13:
        sizes = node.integers("split")
    else:
        sizes = builder.integers(node, 1, "split") if node.optional(1) else ()
    count = node.integer("num_outputs", len(node.outputs))
    if not sizes and count == len(node.outputs):
        part = -(-extent // count) if count > 0 else 0
        sizes = tuple(min(part, extent - index * part) for index in range(count))
    if sum(sizes) != extent or min(sizes) < 0 or len(sizes) != len(node.outputs):
        parts = value_text(sizes or count)
        raise ModelError(f"{node}: {extent} elements do not split into {parts} for {len(node.outputs)} output(s)")
    return sizes


def _pad(node: OnnxNode, builder: GraphBuilder) -> None:
    mode = node.choice("mode", "constant", (*PAD_MODES, "wrap"))
    shape = builder.shape(node.input(0))
    value = 0.0
    if node.opset < 11:
        pads, axes, value = node.integers("pads"), tuple(range(len(shape))), node.real("value", 0.0)
    else:
        pads = builder.integers(node, 1, "pads")
        value = builder.scalar(node, 2, "value") if node.optional(2) else 0.0
        axes = builder.integers(node, 3, "axes") if node.optional(3) else tuple(range(len(shape)))
    if len(pads) != 2 * len(axes):
        raise ModelError(f"{node}: {len(pads)} pads for {len(axes)} axes; two for each are needed")
    out = [0] * (2 * len(shape))
    for index, axis in enumerate(normalized_axis(node, axis, len(shape)) for axis in axes):
        out[axis], out[axis + len(shape)] = pads[index], pads[index + len(axes)]
    _emit_pad(node, builder, tuple(out), value, mode)


def _emit_pad(node: OnnxNode, builder: GraphBuilder, pads: tuple[int, ...], value: float, mode: str) -> None:
    """Negative pads cut; of what is left, any mode but a constant repeats elements of each axis in a known order."""
    emit, x = Emitter(node, builder), node.input(0)
    rank = len(builder.shape(x))
    for axis in range(rank):
        size, before, after = builder.shape(x)[axis], min(pads[axis], 0), min(pads[axis + rank], 0)
        if before or after:
            x = emit.slice(x, axis, -before, size + after)
    pads = tuple(max(pad, 0) for pad in pads)
    is_plain = mode == "constant" or (builder.dtype(x) == np.float32 and mode != "wrap")
    if is_plain and (rank <= _PAD_RANK or builder.dtype(x) != np.float32):
        emit.op("Pad", x, output=node.output, pads=pads, value=value, mode=mode)
        return
    if mode == "constant":
        form = generic_form("Pad", [builder.shape(x)], builder.dtype(x), {"pads": pads, "value": value, "mode": mode})
        assert form is not None
        builder.emit(node, form[0], [x], form[1], node.output)
        return
    for axis in [axis for axis in range(rank) if pads[axis] or pads[axis + rank]]:
        order = np.pad(np.arange(builder.shape(x)[axis]), (pads[axis], pads[axis + rank]), mode=_NUMPY_MODES[mode])
        x = gather(node, builder, x, emit.constant(order, dtype="int64"), axis)
    emit.op("Identity", x, output=node.output)


def _expand(node: OnnxNode, builder: GraphBuilder) -> None:
    x, wanted = node.input(0), builder.integers(node, 1, "shape")
    shape = builder.shape(x)
    try:
        out = np.broadcast_shapes(shape, wanted)
    except ValueError:
        raise ModelError(f"{node}: an input of shape {shape} does not expand to {list(wanted)}") from None
    emit = Emitter(node, builder)
    if out == shape:
        emit.op("Identity", x, output=node.output)
    else:
        check_size(node, out)
        emit.expand(x, out, node.output)


def _tile(node: OnnxNode, builder: GraphBuilder) -> None:
    """Each axis is repeated as an axis before it, which then joins it."""
    x, repeats = node.input(0), builder.integers(node, 1, "repeats")
    shape, emit = builder.shape(x), Emitter(node, builder)
    if len(repeats) != len(shape) or min(repeats, default=1) < 0:
        raise ModelError(f"{node}: repeats {list(repeats)} do not fit an input of shape {shape}")
    out = tuple(size * count for size, count in zip(shape, repeats, strict=True))
    check_size(node, out)
    pairs = [size for both in zip(repeats, shape, strict=True) for size in both]
    steps = [step for own in row_major_strides(shape) for step in (0, own)]
    emit.reshape(emit.view(x, pairs, steps), out, node.output)


HANDLERS: Mapping[str, Handler] = {
    "Expand": _expand,
    "Tile": _tile,
    "Reshape": _reshape,
    "Flatten": _flatten,
    "Squeeze": _squeeze,
    "Unsqueeze": _unsqueeze,
    "Transpose": _transpose,
    "Concat": _concat,
    "Slice": _slice,
    "Split": _split,
    "Pad": _pad,
}


def _write_slice(writing: OnnxWriting, node: Node) -> onnx.NodeProto:
    """Writes a negative end, by which a backward slice includes index 0, as the least integer, as ONNX asks."""
    ends = [end if end >= 0 else _INT64_MIN for end in node.attrs["ends"]]
    inputs = [
        node.inputs[0],
        writing.integers(node, "starts"),
        writing.constant(node, "ends", np.asarray(ends, np.int64)),
        writing.integers(node, "axes"),
        writing.integers(node, "steps"),
    ]
    return writing.plain(node, "Slice", inputs)


def _write_pad(writing: OnnxWriting, node: Node) -> onnx.NodeProto:
    value = writing.constant(node, "value", np.asarray(node.attrs["value"], np.float32))
    return writing.plain(node, "Pad", [node.inputs[0], writing.integers(node, "pads"), value], mode=node.attrs["mode"])


def _write_reshape(writing: OnnxWriting, node: Node) -> onnx.NodeProto:
    allowzero = {"allowzero": 1} if 0 in node.attrs["shape"] else {}
    return writing.plain(node, "Reshape", [node.inputs[0], writing.integers(node, "shape")], **allowzero)


WRITERS: Mapping[str, Writer] = {
    **dict.fromkeys(("Concat", "Transpose"), write_same),
    "Slice": _write_slice,
    "Pad": _write_pad,
    "Reshape": _write_reshape,
}
