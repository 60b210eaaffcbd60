"""What is said of each operator that can work on blocked activations."""

import dataclasses
from collections.abc import Callable, Collection, Iterator

from runtime.graph import Graph, Node
from runtime.lowering.builder import Builder


@dataclasses.dataclass(frozen=True)
class BlockedOperator:
    """An operator on blocked activations.

    Attributes:
        fits: whether a node of it can be lowered so, with blocks of so many channels; its output is float32.
        lower: emits its steps.
        takes_either: whether a node can read its first input row-major, too, so that it needs no conversion.
        wanted: it gains so much that its neighbours follow; others take what their neighbours have.
        joins: the nodes before a node that its step computes too, of those whose outputs are given.
    """

    fits: Callable[[Graph, Node, int], bool]
    lower: Callable[[Builder, Node], None]
    wanted: bool = False
    takes_either: Callable[[Graph, Node], bool] = lambda graph, node: False
    joins: Callable[[Builder, Node, Collection[str]], Iterator[Node]] = lambda builder, node, free: iter(())


@dataclasses.dataclass(frozen=True)
class QuantizedOperator:
    """An operator on blocked activations of eight bits.

    Attributes:
        serves: whether a node can be lowered so, and is faster.
        lower: emits its steps.
        pays: whether it stays faster where its input has to be brought into eight bits for it.
        rounds: it writes bytes alone, and what rounds its result is computed with it.
        inputs: how many of its first inputs are read in bytes; None: all that are no constants.
        is_only: there is no other way to compute what it serves.
        finds_steps: its result has steps that are found as the model runs.
        rounds_image: whether a node can round its first input itself, a row-major image of floats.
    """

    serves: Callable[[Builder, Node], bool]
    lower: Callable[[Builder, Node], None]
    pays: Callable[[Builder, Node], bool] = lambda builder, node: False
    rounds: bool = True
    inputs: int | None = None
    is_only: bool = False
    finds_steps: bool = False
    rounds_image: Callable[[Builder, Node], bool] = lambda builder, node: False


def is_image(graph: Graph, node: Node) -> bool:
    """Whether input and output have four axes, so that they can lie in blocks of channels."""
    return len(graph.shape(node.inputs[0])) == 4 == len(graph.shape(node.output))


def any_image(graph: Graph, node: Node, block: int) -> bool:
    """`fits` of operators whose kernel serves every image."""
    return is_image(graph, node)
