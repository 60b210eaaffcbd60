"""Plans concatenation without copies: tensors are written straight into the wider tensor that a Concat makes."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Collection

from runtime.graph import Graph, Node
from runtime.lowering.choice import GraphChoice

# Operators that write NHWC pixel by pixel with a stride of their own.
_PIXEL_WRITERS = {
    *("Conv", "ConvTranspose", "MaxPool", "AveragePool", "BatchNormalization", "LRN", "Resize", "ChannelShuffle"),
    *("DepthToSpace", "SpaceToDepth", "Concat"),
}
# Operators whose blocked output is memory of another tensor.
_BLOCKED_ALIASES = {"Slice", "Identity"}


@dataclasses.dataclass(frozen=True)
class BlockedNodes:
    """The nodes that work on blocked activations, by their output, and the channels of a block."""

    outputs: Collection[str] = ()
    block: int = 0


def plan_concats(
    graph: Graph, blocked: BlockedNodes | None = None, choice: GraphChoice | None = None
) -> dict[str, tuple[str, int]]:
    """Chooses the tensors that are written into a wider one: name -> (wider tensor, first channel).

    A tensor qualifies once: it joins 4-axis tensors along the channels, and a kernel writes it in the wider one's
    storage: in NHWC, or in blocks of one image, from the first lane of one on: the lanes behind its last channel are
    those of the part behind it, which is copied to its place later. With a choice, those of Concats that run on images
    or on the CPU, or in another element type than their part, are left out.
    """
    producers = {node.output: node for node in graph.nodes}
    placed: dict[str, tuple[str, int]] = {}
    for node in graph.nodes:
        if node.op == "Concat" and node.attrs["axis"] == 1 and len(graph.shape(node.output)) == 4:
            _place_parts(graph, node, producers, placed, blocked or BlockedNodes())
    if choice is None:
        return placed
    return {name: place for name, place in placed.items() if choice.nodes[place[0]].joins(choice.nodes[name])}


def place_inputs(graph: Graph) -> dict[str, tuple[str, int]]:
    """Inputs of the graph that can lie where a Concat joins them: name -> (wider tensor, first element).

    So decoding copies no cache. Each is one run of the wider tensor, which is no output: a caller may keep that.
    """
    placed: dict[str, tuple[str, int]] = {}
    for node in graph.nodes:
        if node.op != "Concat" or node.output in graph.outputs:
            continue
        axis, shape = node.attrs["axis"], graph.shape(node.output)
        start, inner = 0, math.prod(shape[axis + 1 :])
        for name in node.inputs if math.prod(shape[:axis]) == 1 else ():
            if name in graph.inputs and name not in {*placed, *graph.outputs} and node.inputs.count(name) == 1:
                placed[name] = (node.output, start * inner)
            start += graph.shape(name)[axis]
    return placed


def _place_parts(
    graph: Graph, concat: Node, producers: dict[str, Node], placed: dict[str, tuple[str, int]], blocked: BlockedNodes
) -> None:
    channel = 0
    in_blocks = concat.output in blocked.outputs
    for name in concat.inputs:
        writer, end = producers.get(name), channel + graph.shape(name)[1]
        once = name not in placed and concat.inputs.count(name) == 1
        if writer and once and (name in blocked.outputs) == in_blocks:
            begins_block = not in_blocks or channel % blocked.block == 0
            one_image = not in_blocks or graph.shape(name)[0] == 1
            if begins_block and one_image and _writes(writer, in_blocks):
                placed[name] = (concat.output, channel)
        channel = end


def _writes(writer: Node, in_blocks: bool) -> bool:
    """Whether an operator can write its output into a wider tensor."""
    return writer.op not in _BLOCKED_ALIASES if in_blocks else writer.op in _PIXEL_WRITERS
