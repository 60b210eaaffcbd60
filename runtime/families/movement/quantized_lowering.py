"""Lowers Concat and Slice of channels, and Reshape of rows, on activations of eight bits in blocks."""

import itertools

from runtime.families.elementwise.quantized_lowering import emit_lookup, steps_table
from runtime.families.movement.block_lowering import only_channels
from runtime.graph import Node
from runtime.lowering.blocks import QuantizedOperator, is_image
from runtime.lowering.builder import IMAGE_RANK, PIXEL_BYTES, Builder
from runtime.lowering.value import Value
from runtime.types import ElementType, Storage


def _joins_blocks(builder: Builder, node: Node) -> bool:
    """Whether every part begins with a block."""
    graph = builder.graph
    starts = itertools.accumulate(graph.shape(name)[1] for name in node.inputs[:-1])
    return is_image(graph, node) and node.attrs["axis"] == 1 and all(start % builder.block == 0 for start in starts)


def _lower_concat(builder: Builder, node: Node) -> None:
    """Parts that were not written into the output in the first place (`placement.py`) are brought into its steps."""
    y, start = builder.write_bytes(builder.result(node)), 0
    assert y.steps is not None
    for index, name in enumerate(node.inputs):
        x = builder.read_bytes(name)
        part = y.channels(name, x.shape, start)
        if not (x.base is y and x.offset == part.offset):
            images = y.size_bytes // y.shape[0]
            emit_lookup(builder, f"{node.name}:{index}", "Concat", x, part, steps_table(x, y.steps), images)
        start += x.shape[1]


def _cuts_blocks(builder: Builder, node: Node) -> bool:
    """Whether a slice takes channels of one image, from the first of a block on."""
    graph = builder.graph
    if not is_image(graph, node) or graph.shape(node.output)[0] > 1:
        return False
    first = only_channels(graph, node)
    return first is not None and first % builder.block == 0


def _lower_slice(builder: Builder, node: Node) -> None:
    """The same memory, where the steps are the same."""
    graph, first, result = builder.graph, only_channels(builder.graph, node), builder.result(node)
    known = builder.steps_of(result)
    assert first is not None
    part = builder.read_bytes(node.inputs[0]).blocks(result, graph.shape(node.output), first)
    if part.steps == known:
        builder.alias(result, part)
    else:
        emit_lookup(builder, node.name, "Slice", part, builder.write_bytes(result), steps_table(part, known))


def _joins_channels(builder: Builder, node: Node) -> bool:
    return is_image(builder.graph, node) and node.attrs["axis"] == 1


def _keeps_order(builder: Builder, node: Node) -> bool:
    """Whether a reshaped tensor lies in a GPU's buffers as it did: channels of single pixels, or rows."""
    shapes = builder.graph.shape(node.inputs[0]), builder.graph.shape(node.output)
    return all(len(shape) != IMAGE_RANK or (shape[2:] == (1, 1) and shape[1] >= PIXEL_BYTES) for shape in shapes)


def _keeps_rows(builder: Builder, node: Node) -> bool:
    """Whether rows of whole blocks stay what they are."""
    before, after = (builder.graph.shape(name) for name in (node.inputs[0], node.output))
    is_rows = IMAGE_RANK not in (len(before), len(after)) and min(len(before), len(after)) > 1
    return is_rows and before[-1] == after[-1] and after[-1] % builder.block == 0


def _lower_reshape(builder: Builder, node: Node) -> None:
    """The same memory; another in other steps."""
    x, result = builder.read_bytes(node.inputs[0]), builder.result(node)
    shape, steps = builder.graph.shape(node.output), builder.steps_of(result)
    stays = x.steps == steps
    if x.storage == Storage.BLOCKED:
        view = Value(result, x.shape, Storage.BLOCKED, ElementType.U8, base=x, block=x.block, steps=x.steps)
    else:
        storage, stride = (Storage.NHWC, shape[1]) if len(shape) == IMAGE_RANK else (Storage.FLAT, 0)
        view = Value(result, shape, storage, x.element, stride, x, steps=x.steps)
        stays = stays and x.is_row_major and not builder.is_part(result)
    if stays:
        builder.alias(result, view)
    else:
        emit_lookup(builder, node.name, "Reshape", view, builder.write_bytes(result), steps_table(x, steps))


BYTE_OPERATORS = {
    "Concat": QuantizedOperator(_joins_channels, _lower_concat),
    "Reshape": QuantizedOperator(_keeps_order, _lower_reshape, inputs=1),
}
QUANTIZED_OPERATORS = {
    "Concat": QuantizedOperator(_joins_blocks, _lower_concat),
    "Slice": QuantizedOperator(_cuts_blocks, _lower_slice),
    "Reshape": QuantizedOperator(_keeps_rows, _lower_reshape),
}
