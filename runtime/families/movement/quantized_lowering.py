"""Lowers Concat and Slice of channels, and Reshape of rows, on activations of eight bits in blocks."""

from __future__ import annotations

import itertools

from runtime.families.elementwise.quantized_lowering import emit_lookup, steps_table
from runtime.families.movement.block_lowering import only_channels
from runtime.graph import Node
from runtime.lowering.blocks import QuantizedOperator, is_image
from runtime.lowering.builder import IMAGE_RANK, Builder
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
        part = y.blocks(name, x.shape, start)
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


def _keeps_rows(builder: Builder, node: Node) -> bool:
    """Whether rows of whole blocks stay what they are."""
    before, after = (builder.graph.shape(name) for name in (node.inputs[0], node.output))
    is_rows = IMAGE_RANK not in (len(before), len(after)) and min(len(before), len(after)) > 1
    return is_rows and before[-1] == after[-1] and after[-1] % builder.block == 0


def _lower_reshape(builder: Builder, node: Node) -> None:
    """The same memory, where the steps are the same."""
    x, result = builder.read_bytes(node.inputs[0]), builder.result(node)
    known = builder.steps_of(result)
    if x.steps == known:
        same = Value(result, x.shape, Storage.BLOCKED, ElementType.U8, base=x, block=x.block, steps=known)
        builder.alias(result, same)
    else:
        emit_lookup(builder, node.name, "Reshape", x, builder.write_bytes(result), steps_table(x, known))


QUANTIZED_OPERATORS = {
    "Concat": QuantizedOperator(_joins_blocks, _lower_concat),
    "Slice": QuantizedOperator(_cuts_blocks, _lower_slice),
    "Reshape": QuantizedOperator(_keeps_rows, _lower_reshape),
}
