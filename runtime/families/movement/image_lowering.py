"""Lowers concatenation, slices, padding and channel shuffles on images."""

from collections.abc import Sequence

from runtime.graph import Node
from runtime.kernels.spec import MemoryType
from runtime.layout.image import LANES
from runtime.lowering.builder import Builder
from runtime.lowering.images import emit, extents
from runtime.lowering.launch import Tensors
from runtime.plan.plan import ProfileInfo
from runtime.types import Storage

_INPUTS = ("a", "b", "c", "d")  # inputs of one launch of `concat`


def lower_concat(builder: Builder, node: Node) -> str:
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


def lower_slice(builder: Builder, node: Node) -> str:
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


def lower_shuffle(builder: Builder, node: Node) -> str:
    """Lowers ChannelShuffle: channel (i, j) of [groups, channels/groups] goes to channel (j, i)."""
    dims = extents(builder.graph.shape(node.output)) | {"groups": node.attrs["group"]}
    return emit(builder, node, "channel_shuffle", "ChannelShuffle", dims)


def lower_pad(builder: Builder, node: Node) -> str:
    """Lowers Pad with a constant around height and width."""
    pads, x = node.attrs["pads"], builder.graph.shape(node.inputs[0])
    if node.attrs["mode"] != "constant" or any(pads[axis] for axis in (0, 1, 4, 5)) or min(pads) < 0:
        return f"pads {pads} of mode {node.attrs['mode']}; images take a constant around height and width"
    dims = extents(builder.graph.shape(node.output)) | {"in_h": x[2], "in_w": x[3], "pad_t": pads[2], "pad_l": pads[3]}
    return emit(builder, node, "pad", "Pad", dims, {"value": node.attrs["value"]})


IMAGE_LOWERINGS = {
    "Concat": lower_concat,
    "Slice": lower_slice,
    "ChannelShuffle": lower_shuffle,
    "Pad": lower_pad,
}
