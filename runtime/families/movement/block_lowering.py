"""Lowers operators that only move elements, on blocked activations: Concat, Slice, Pad, Identity."""

import math

from runtime.graph import Graph, Node
from runtime.kernels.codes import Pad
from runtime.layout.arrangement import Shape
from runtime.layout.blocked import blocked_shape
from runtime.lowering.blocks import BlockedOperator, any_image, is_image
from runtime.lowering.builder import Builder
from runtime.lowering.value import Value, row_major
from runtime.plan.plan import ProfileInfo
from runtime.types import Storage


def lower_concat(builder: Builder, node: Node) -> None:
    """Lowers Concat: copies those inputs that were not written into the output in the first place (`placement.py`)."""
    y = builder.known(node.output, Storage.BLOCKED) or builder.write(node.output, Storage.BLOCKED)
    start, axis = 0, node.attrs["axis"]
    for index, name in enumerate(node.inputs):
        x = builder.read(name, Storage.BLOCKED)
        part = f"{node.name}:{index}"
        if axis != 1:
            offset = start * _strides(y, builder.block)[axis]
            _copy(builder, part, "Concat", x, 0, y, offset, x.shape, (1, 1))
        elif not (x.base is y and x.offset == y.blocks(name, x.shape, start).offset):
            _copy_channels(builder, part, "Concat", x, 0, y, start, x.shape[1])
        start += x.shape[axis]


def _strides(value: Value, block: int) -> tuple[int, ...]:
    """Strides of batch, blocks, height, width and lanes."""
    return row_major(blocked_shape(value.shape, block))


def _copy(
    builder: Builder, name: str, op: str, x: Value, x_at: int, y: Value, y_at: int, shape: Shape, steps: Shape
) -> None:
    """Copies all channels of a window of this shape; `steps` from row to row and column to column of x."""
    block = builder.block
    n, c, h, w, lane = _strides(x, block)
    strides = (n, c, h * steps[0], w * steps[1], lane)
    source, target = x.from_element(x_at), y.from_element(y_at)
    extents = blocked_shape(shape, block)
    builder.strided_copy(name, op, source, target, extents, strides, _strides(y, block), shown=ProfileInfo(shape))


def _copy_channels(
    builder: Builder, name: str, op: str, x: Value, x_first: int, y: Value, y_first: int, count: int
) -> None:
    """Copies channels from one place to another, lane by lane where the blocks do not meet."""
    block = builder.block
    n, c, _, w, _ = _strides(x, block)
    shape, pixels = x.shape, x.shape[2] * x.shape[3]
    for at, lanes, blocks in channel_runs(x_first, y_first, count, block):
        source = x.from_element(_channel_offset(x, x_first + at, block))
        target = y.from_element(_channel_offset(y, y_first + at, block))
        extents = (shape[0], blocks, pixels, lanes)
        target_n, target_c, _, target_w, _ = _strides(y, block)
        steps, target_steps = (n, c, w, 1), (target_n, target_c, target_w, 1)
        part = f"{name}:{at}" if at else name
        builder.strided_copy(part, op, source, target, extents, steps, target_steps, shown=ProfileInfo(y.shape))


def _channel_offset(value: Value, channel: int, block: int) -> int:
    return channel // block * _strides(value, block)[1] + channel % block


def channel_runs(x_first: int, y_first: int, count: int, block: int) -> list[tuple[int, int, int]]:
    """Divides `count` channels into runs that lie in one block on either side: (first channel, lanes, blocks).

    A run repeats in so many blocks, `block` channels apart.
    """
    runs: list[tuple[int, int, int]] = []
    places: dict[tuple[int, int], int] = {}  # first lane and lanes of a run -> its index
    at = 0
    while at < count:
        lane = (x_first + at) % block
        lanes = min(block - lane, block - (y_first + at) % block, count - at)
        if (lane, lanes) in places:
            index = places[lane, lanes]
            first, _, blocks = runs[index]
            runs[index] = (first, lanes, blocks + 1)
        else:
            places[lane, lanes] = len(runs)
            runs.append((at, lanes, 1))
        at += lanes
    return runs


def _slice_of(graph: Graph, node: Node) -> tuple[list[int], list[int]]:
    """First element and step along each axis."""
    rank = len(graph.shape(node.inputs[0]))
    start, steps = [0] * rank, [1] * rank
    for axis, first, step in zip(*(node.attrs[name] for name in ("axes", "starts", "steps")), strict=True):
        start[axis], steps[axis] = first, step
    return start, steps


def fits_slice(graph: Graph, node: Node, block: int) -> bool:
    """Slices of channels alone, and of images where they begin with a block."""
    if not is_image(graph, node):
        return False
    start, steps = _slice_of(graph, node)
    return steps[:2] == [1, 1] and (start[1] % block == 0 or only_channels(graph, node) is not None)


def only_channels(graph: Graph, node: Node) -> int | None:
    """The first channel of a slice that takes all of the other axes as they lie; None of another.

    Backwards, an axis keeps its size too.
    """
    shape, part = graph.shape(node.inputs[0]), graph.shape(node.output)
    start, steps = _slice_of(graph, node)
    is_whole = (shape[0], *shape[2:]) == (part[0], *part[2:]) and min(steps) > 0 and steps[1] == 1
    return start[1] if is_whole else None


def lower_slice(builder: Builder, node: Node) -> None:
    """Lowers Slice: the same memory where whole blocks of one image are wanted, else a copy."""
    x, shape, block = builder.read(node.inputs[0], Storage.BLOCKED), builder.graph.shape(node.output), builder.block
    start, steps = _slice_of(builder.graph, node)
    if only_channels(builder.graph, node) is not None and start[1] % block == 0 and shape[0] == 1:
        builder.alias(node.output, x.blocks(node.output, shape, start[1]))
        return
    y = builder.write(node.output, Storage.BLOCKED)
    if start[1] % block:
        _copy_channels(builder, node.name, "Slice", x, start[1], y, 0, shape[1])
        return
    n, c, h, w, _ = _strides(x, block)
    first = start[0] * n + start[1] // block * c + start[2] * h + start[3] * w
    _copy(builder, node.name, "Slice", x, first, y, 0, shape, (steps[2], steps[3]))


def fits_pad(graph: Graph, node: Node, block: int) -> bool:
    """Pads of height and width."""
    pads = node.attrs["pads"]
    return is_image(graph, node) and min(pads) >= 0 and not any((*pads[:2], *pads[4:6]))


def lower_pad(builder: Builder, node: Node) -> None:
    """Lowers Pad; the lanes behind the channels are padded, too."""
    x, y = builder.read(node.inputs[0], Storage.BLOCKED), builder.write(node.output, Storage.BLOCKED)
    dims: dict[str, int] = {}
    before = (0, *node.attrs["pads"][2:4], 0)
    for prefix, value in (("i", x), ("d", y)):
        dims |= _numbered(prefix, _merged_images(value, builder.block))
    for prefix, value in (("xs", x), ("ys", y)):
        dims |= _numbered(prefix, row_major(_merged_images(value, builder.block)))
    dims |= _numbered("p", before)
    defines, numbers = {"PAD": int(Pad[node.attrs["mode"].upper()])}, {"value": node.attrs["value"]}
    builder.launch("pad", node.name, "Pad", {"x": x, "y": y}, dims, numbers, defines, ProfileInfo(y.shape))


def _merged_images(value: Value, block: int) -> Shape:
    """Extents in memory: all blocks of all images, height, width, lanes."""
    batch, blocks, *rest = blocked_shape(value.shape, block)
    return math.prod((batch, blocks)), *rest


def _numbered(prefix: str, values: Shape) -> dict[str, int]:
    return {f"{prefix}{axis}": value for axis, value in enumerate(values)}


def lower_identity(builder: Builder, node: Node) -> None:
    """Lowers Identity: the output is the same memory under another name."""
    x = builder.read(node.inputs[0], Storage.BLOCKED)
    builder.alias(node.output, x.blocks(node.output, x.shape, 0))


BLOCKED_OPERATORS = {
    "Concat": BlockedOperator(any_image, lower_concat),
    "Slice": BlockedOperator(fits_slice, lower_slice),
    "Pad": BlockedOperator(fits_pad, lower_pad),
    "Identity": BlockedOperator(any_image, lower_identity),
}
