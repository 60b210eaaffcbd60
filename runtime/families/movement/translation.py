"""How operators that only move elements are lowered to buffers and images, and at which sizes they are measured."""

import math
from collections.abc import Sequence

from runtime.graph import Node
from runtime.kernels.codes import Pad
from runtime.kernels.spec import MemoryType
from runtime.layout.image import LANES
from runtime.lowering.builder import Builder, node_error
from runtime.lowering.images import emit, extents
from runtime.lowering.iteration import padded
from runtime.lowering.launch import Tensors
from runtime.lowering.value import Value
from runtime.operators.case import IMAGE, sized
from runtime.plan.plan import ProfileInfo
from runtime.types import Storage

_PAD_RANK = 4
_INPUTS = ("a", "b", "c", "d")  # inputs of one launch of `concat` on images


def _concat_on_buffers(builder: Builder, node: Node) -> None:
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
        in_place = x.root is y.root and x.root_offset == y.root_offset + offset
        if not (in_place and same):
            part = Value(name, x.shape, storage, y.element, y.stride, y, offset)
            builder.strided_copy(f"{node.name}:{index}", "Concat", x, part, x.shape, x.strides, y.strides)
        start += x.shape[axis]


def _slice_on_buffers(builder: Builder, node: Node) -> None:
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


def _pad_on_buffers(builder: Builder, node: Node) -> None:
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


def _transpose(builder: Builder, node: Node) -> None:
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


def _reshape(builder: Builder, node: Node) -> None:
    """Lowers Reshape: the output is the same row-major memory under another shape."""
    x = builder.read(node.inputs[0], Storage.FLAT)
    shape = builder.graph.shape(node.output)
    builder.alias(node.output, Value(node.output, shape, Storage.FLAT, x.element, 0, x))


def _identity(builder: Builder, node: Node) -> None:
    """Lowers Identity: the output is the same memory under another name."""
    x = builder.read_any(node.inputs[0])
    builder.alias(node.output, Value(node.output, x.shape, x.storage, x.element, x.stride, x))


def _shuffle_on_buffers(builder: Builder, node: Node) -> None:
    """Lowers ChannelShuffle: channel (i, j) of [groups, channels/groups] goes to channel (j, i)."""
    x, y = builder.read(node.inputs[0], Storage.NHWC), builder.write(node.output, Storage.NHWC)
    group = node.attrs["group"]
    inner = x.shape[1] // group
    shape, source, target = (x.pixels, group, inner), (x.stride, inner, 1), (y.stride, 1, group)
    builder.strided_copy(node.name, "ChannelShuffle", x, y, shape, source, target)


BUFFER_LOWERINGS = {
    "Concat": _concat_on_buffers,
    "Slice": _slice_on_buffers,
    "Pad": _pad_on_buffers,
    "Transpose": _transpose,
    "Reshape": _reshape,
    "Identity": _identity,
    "ChannelShuffle": _shuffle_on_buffers,
}


def _concat_on_images(builder: Builder, node: Node) -> str:
    """Lowers Concat of channels: each launch joins up to four inputs, and must start at a multiple of four channels."""
    if node.attrs["axis"] != 1:
        return f"concatenation along axis {node.attrs['axis']}; images join channels"
    graph = builder.graph
    n, _, h, w = graph.shape(node.output)
    channels = [graph.shape(name)[1] for name in node.inputs]
    groups = _groups(channels)
    if groups is None:
        return f"inputs of {channels} channels do not join at multiples of {LANES}"
    y_dims = [_concat_dims(n * h, w, channels, group) for group in groups]
    reasons = [builder.refusal("concat", MemoryType.IMAGE, dims) for dims in y_dims]
    if any(reasons):
        return next(filter(None, reasons))
    images = [builder.read_image(name, graph.shape(name)) for name in node.inputs]
    y, shown = builder.write(node.output, Storage.IMAGE), ProfileInfo(graph.shape(node.output))
    for index, (group, dims) in enumerate(zip(groups, y_dims, strict=True)):
        tensors: Tensors = {key: images[group[min(i, len(group) - 1)]] for i, key in enumerate(_INPUTS)}
        tensors["y"] = y
        name = node.name if len(groups) == 1 else f"{node.name}:{index}"
        builder.launch("concat", name, "Concat", tensors, dims, shown=shown, memory=MemoryType.IMAGE)
    return ""


def _groups(channels: Sequence[int]) -> list[range] | None:
    """Splits the inputs into one run for each launch; None where a run cannot start at a multiple of four channels."""
    groups, first, start = [], 0, 0
    while first < len(channels):
        if start % LANES:
            return None
        ends = range(first + 1, min(first + len(_INPUTS), len(channels)) + 1)
        fitting = [end for end in ends if end == len(channels) or sum(channels[:end]) % LANES == 0]
        if not fitting:
            return None
        groups.append(range(first, fitting[-1]))
        first = fitting[-1]
        start = sum(channels[:first])
    return groups


def _concat_dims(rows: int, width: int, channels: Sequence[int], group: range) -> dict[str, int]:
    counts = [channels[index] for index in group] + [0] * (len(_INPUTS) - len(group))
    dims = {f"{key}_channels": count for key, count in zip(_INPUTS, counts, strict=True)}
    return dims | {"rows": rows, "width": width, "y_block": sum(channels[: group.start]) // LANES}


def _slice_on_images(builder: Builder, node: Node) -> str:
    """Lowers Slice; steps other than 1 are possible along height and width."""
    graph, attrs = builder.graph, node.attrs
    x = graph.shape(node.inputs[0])
    starts, steps = [0] * 4, [1] * 4
    for axis, start, step in zip(attrs["axes"], attrs["starts"], attrs["steps"], strict=True):
        starts[axis], steps[axis] = start, step
    if steps[:2] != [1, 1]:
        return f"steps of {steps[:2]} along batch and channels; images take 1"
    dims = extents(graph.shape(node.output)) | {"in_h": x[2], "in_w": x[3]}
    dims |= {f"start_{axis}": start for axis, start in zip("nchw", starts, strict=True)}
    dims |= {"step_h": steps[2], "step_w": steps[3]}
    return emit(builder, node, "slice", "Slice", dims)


def _shuffle_on_images(builder: Builder, node: Node) -> str:
    """Lowers ChannelShuffle: channel (i, j) of [groups, channels/groups] goes to channel (j, i)."""
    dims = extents(builder.graph.shape(node.output)) | {"groups": node.attrs["group"]}
    return emit(builder, node, "channel_shuffle", "ChannelShuffle", dims)


def _pad_on_images(builder: Builder, node: Node) -> str:
    """Lowers Pad with a constant around height and width."""
    pads, x = node.attrs["pads"], builder.graph.shape(node.inputs[0])
    if node.attrs["mode"] != "constant" or any(pads[axis] for axis in (0, 1, 4, 5)) or min(pads) < 0:
        return f"pads {pads} of mode {node.attrs['mode']}; images take a constant around height and width"
    dims = extents(builder.graph.shape(node.output)) | {"in_h": x[2], "in_w": x[3], "pad_t": pads[2], "pad_l": pads[3]}
    return emit(builder, node, "pad", "Pad", dims, {"value": node.attrs["value"]})


IMAGE_LOWERINGS = {
    "Concat": _concat_on_images,
    "Slice": _slice_on_images,
    "ChannelShuffle": _shuffle_on_images,
    "Pad": _pad_on_images,
}


OPBENCH_CASES = (
    sized("Transpose", IMAGE, detail="0231", perm=(0, 2, 3, 1)),
    sized("Concat", IMAGE, IMAGE, axis=1),
    sized("Slice", IMAGE, detail="1-55", starts=(1, 1), ends=(55, 55), axes=(2, 3), steps=(1, 1)),
    sized("Pad", IMAGE, detail="1", pads=(0, 0, 1, 1, 0, 0, 1, 1), value=0.0, mode="constant"),
    sized("ChannelShuffle", (1, 240, 28, 28), detail="3", group=3),
)
