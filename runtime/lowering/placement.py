"""Plans concatenation without copies: tensors are written straight into the wider tensor that a Concat makes."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Collection, Mapping

from runtime.graph import Graph, Node
from runtime.lowering.choice import GraphChoice

# Operators that write NHWC pixel by pixel with a stride of their own.
_PIXEL_WRITERS = {
    *("Conv", "ConvTranspose", "MaxPool", "AveragePool", "BatchNormalization", "LRN", "Resize", "ChannelShuffle"),
    *("DepthToSpace", "SpaceToDepth", "Concat"),
}
# Operators whose blocked output is memory of another tensor.
_BLOCKED_ALIASES = {"Slice", "Identity"}
# Operators whose row-major output is memory of another tensor.
_SAME_RUN = {"Reshape", "Identity"}


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


def place_runs(graph: Graph) -> dict[str, tuple[str, int]]:
    """Tensors that can lie where a Concat joins them with inputs of the graph: name -> (wider tensor, first element).

    So decoding copies no cache, and nothing into one. Each is one run of the wider tensor, which is no output: a caller
    may keep that. What the Concat joins may be another shape of the tensor; or, where it comes last, the first run of
    one, whose rest lies behind the wider tensor.
    """
    producers = {node.output: node for node in graph.nodes}
    placed: dict[str, tuple[str, int]] = {}
    for node in graph.nodes:
        axis, shape = node.attrs.get("axis", 0), graph.shape(node.output)
        is_run = node.op == "Concat" and node.output not in graph.outputs and math.prod(shape[:axis]) == 1
        if not is_run or set(graph.inputs).isdisjoint(node.inputs):
            continue
        start, inner = 0, math.prod(shape[axis + 1 :])
        for name in node.inputs:
            part = _written(graph, name, producers, is_last=start + graph.shape(name)[axis] == shape[axis])
            is_free = name not in graph.outputs if name in graph.inputs else part in producers
            if is_free and part not in placed and node.inputs.count(name) == 1:
                placed[part] = (node.output, start * inner)
            start += graph.shape(name)[axis]
    return placed


def run_size(graph: Graph, tensor: str, runs: Mapping[str, tuple[str, int]]) -> int:
    """Elements from a tensor's first to the last of what lies in it, or begins there."""
    ends = (first + graph.tensors[part].size for part, (whole, first) in runs.items() if whole == tensor)
    return max(graph.tensors[tensor].size, *ends, 0)


def _written(graph: Graph, tensor: str, producers: Mapping[str, Node], is_last: bool) -> str:
    """The tensor that a node wrote, where one is that in another shape, or if nothing follows, its first run."""
    while tensor in producers:
        node = producers[tensor]
        if node.op not in _SAME_RUN and not (is_last and _is_first_run(graph, node)):
            break
        tensor = node.inputs[0]
    return tensor


def _is_first_run(graph: Graph, node: Node) -> bool:
    """Whether a node gives the first elements of what it reads."""
    if node.op != "Slice" or any(node.attrs["starts"]) or set(node.attrs["steps"]) != {1}:
        return False
    shape, whole = graph.shape(node.output), graph.shape(node.inputs[0])
    cut = [axis for axis, size in enumerate(shape) if size != whole[axis]]
    return len(cut) == 1 and math.prod(whole[: cut[0]]) == 1


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
