"""Lowers operators that only move elements: concatenation, slices, padding, transposition, reshaping."""

import math

from runtime.graph import Node
from runtime.kernels.codes import Pad
from runtime.lowering.builder import Builder, node_error
from runtime.lowering.iteration import padded
from runtime.lowering.value import Value
from runtime.plan.plan import ProfileInfo
from runtime.types import Storage

_PAD_RANK = 4


def lower_concat(builder: Builder, node: Node) -> None:
    """Lowers Concat: copies those inputs that were not written into the output in the first place (`placement.py`)."""
    rank = len(builder.graph.shape(node.output))
    homes = {builder.home(name).storage for name in node.inputs if builder.is_activation(name)}
    channels_last = rank == 4 and bool(homes & {Storage.NHWC, Storage.IMAGE, Storage.BLOCKED})
    storage = Storage.NHWC if channels_last else Storage.FLAT
    y = builder.known(node.output, storage) or builder.write(node.output, storage)
    start, axis = 0, node.attrs["axis"]
    for index, name in enumerate(node.inputs):
        x = builder.read(name, storage) if builder.is_activation(name) else builder.read_any(name)
        offset = start * y.strides[axis]
        steps = zip(x.shape, x.strides, y.strides, strict=True)
        same = all(size == 1 or own == wider for size, own, wider in steps)
        if not (x.base is y and x.offset == offset and same):
            part = Value(name, x.shape, storage, y.element, y.stride, y, offset)
            builder.strided_copy(f"{node.name}:{index}", "Concat", x, part, x.shape, x.strides, y.strides)
        start += x.shape[axis]


def lower_slice(builder: Builder, node: Node) -> None:
    """Lowers Slice: channels of NHWC, and a run of row-major memory, become views, anything else a copy."""
    x = builder.read_any(node.inputs[0])
    attrs = node.attrs
    steps, start = [1] * len(x.shape), [0] * len(x.shape)
    for axis, first, step in zip(attrs["axes"], attrs["starts"], attrs["steps"], strict=True):
        start[axis], steps[axis] = first, step
    shape = builder.graph.shape(node.output)
    offset = sum(first * stride for first, stride in zip(start, x.strides, strict=True))
    part = Value(node.output, shape, x.storage, x.element, x.stride, x, offset)
    cut = [axis for axis, size in enumerate(x.shape) if shape[axis] != size or steps[axis] < 0]
    channels = x.storage == Storage.NHWC and cut == [1]
    run = x.storage == Storage.FLAT and len(cut) == 1 and math.prod(x.shape[: cut[0]]) == 1
    if (channels or run) and steps[cut[0]] == 1:
        builder.alias(node.output, part)
        return
    y = builder.write(node.output, x.storage)
    strides = [stride * step for stride, step in zip(x.strides, steps, strict=True)]
    builder.strided_copy(node.name, "Slice", part, y, shape, strides, y.strides)


def lower_pad(builder: Builder, node: Node) -> None:
    """Lowers Pad of up to four axes, with constant, reflected or repeated elements."""
    x = builder.read_any(node.inputs[0])
    if len(x.shape) > _PAD_RANK or min(node.attrs["pads"]) < 0:
        raise node_error(node, f"pads {node.attrs['pads']} of {len(x.shape)} axes; up to {_PAD_RANK} axes, pads >= 0")
    y = builder.write(node.output, x.storage)
    before = node.attrs["pads"][: len(x.shape)]
    columns = {"d": (y.shape, 1), "i": (x.shape, 1), "p": (before, 0), "xs": (x.strides, 0), "ys": (y.strides, 0)}
    dims = {
        f"{prefix}{axis}": value
        for prefix, (values, fill) in columns.items()
        for axis, value in enumerate(padded(values, _PAD_RANK, fill))
    }
    defines = {"PAD": int(Pad[node.attrs["mode"].upper()])}
    numbers = {"value": node.attrs["value"]}
    builder.launch("pad", node.name, "Pad", {"x": x, "y": y}, dims, numbers, defines, ProfileInfo(y.shape))


def lower_transpose(builder: Builder, node: Node) -> None:
    """Lowers Transpose: as the same memory in another storage where one fits (FLAT to NHWC, say), else as a copy."""
    to_pixels = node.attrs["perm"] == (0, 2, 3, 1) and builder.known(node.inputs[0], Storage.BLOCKED)
    x = builder.read(node.inputs[0], Storage.NHWC) if to_pixels else builder.read_any(node.inputs[0])
    source = tuple(x.strides[axis] for axis in node.attrs["perm"])
    view = _stored_view(node.output, builder.graph.shape(node.output), x, source)
    if view is not None:
        builder.alias(node.output, view)
        return
    y = builder.write(node.output, x.storage)
    builder.strided_copy(node.name, "Transpose", x, y, y.shape, source, y.strides)


def _stored_view(name: str, shape: tuple[int, ...], x: Value, strides: tuple[int, ...]) -> Value | None:
    """Returns the memory of `x` as a value of this shape, if a storage has exactly these strides; else None."""
    views = [Value(name, shape, Storage.FLAT, x.element, 0, x)]
    if len(shape) == 4:
        views.append(Value(name, shape, Storage.NHWC, x.element, strides[3], x))
    for view in views:
        if all(size == 1 or a == b for size, a, b in zip(shape, strides, view.strides, strict=True)):
            return view
    return None


def lower_reshape(builder: Builder, node: Node) -> None:
    """Lowers Reshape: the output is the same row-major memory under another shape."""
    x = builder.read(node.inputs[0], Storage.FLAT)
    shape = builder.graph.shape(node.output)
    builder.alias(node.output, Value(node.output, shape, Storage.FLAT, x.element, 0, x))


def lower_identity(builder: Builder, node: Node) -> None:
    """Lowers Identity: the output is the same memory under another name."""
    x = builder.read_any(node.inputs[0])
    builder.alias(node.output, Value(node.output, x.shape, x.storage, x.element, x.stride, x))


def lower_shuffle(builder: Builder, node: Node) -> None:
    """Lowers ChannelShuffle: channel (i, j) of [groups, channels/groups] goes to channel (j, i)."""
    x, y = builder.read(node.inputs[0], Storage.NHWC), builder.write(node.output, Storage.NHWC)
    group = node.attrs["group"]
    inner = x.shape[1] // group
    shape, source, target = (x.pixels, group, inner), (x.stride, inner, 1), (y.stride, 1, group)
    builder.strided_copy(node.name, "ChannelShuffle", x, y, shape, source, target)


BUFFER_LOWERINGS = {
    "Concat": lower_concat,
    "Slice": lower_slice,
    "Pad": lower_pad,
    "Transpose": lower_transpose,
    "Reshape": lower_reshape,
    "Identity": lower_identity,
    "ChannelShuffle": lower_shuffle,
}
