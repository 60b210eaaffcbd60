"""Plans concatenation without copies: tensors are written straight into the wider tensor that a Concat makes."""

from __future__ import annotations

from runtime.graph import Graph, Node
from runtime.lowering.choice import GraphChoice, Place

# Operators that write NHWC pixel by pixel with a stride of their own.
_WRITERS = {
    *("Conv", "ConvTranspose", "MaxPool", "AveragePool", "BatchNormalization", "LRN", "Resize", "ChannelShuffle"),
    "Concat",
}


def plan_concats(graph: Graph, choice: GraphChoice | None = None) -> dict[str, tuple[str, int]]:
    """Chooses the tensors that are written into a wider one: name -> (wider tensor, first channel).

    A tensor qualifies once: it joins 4-axis tensors along the channels, and a kernel writes it in NHWC. With a choice,
    those of Concats that run on images are left out.
    """
    producers = {node.output: node for node in graph.nodes}
    placed: dict[str, tuple[str, int]] = {}
    for node in graph.nodes:
        if node.op == "Concat" and node.attrs["axis"] == 1 and len(graph.shape(node.output)) == 4:
            _place_inputs(graph, node, producers, placed)
    if choice is None:
        return placed
    return {name: place for name, place in placed.items() if choice.nodes[place[0]].place != Place.IMAGE}


def _place_inputs(graph: Graph, concat: Node, producers: dict[str, Node], placed: dict[str, tuple[str, int]]) -> None:
    channel = 0
    for name in concat.inputs:
        writer = producers.get(name)
        if writer and writer.op in _WRITERS and name not in placed and concat.inputs.count(name) == 1:
            placed[name] = (concat.output, channel)
        channel += graph.shape(name)[1]
