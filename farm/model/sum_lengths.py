"""How many terms a graph's longest sum has: two orders of adding them up differ the more, the more there are."""

from __future__ import annotations

import math

from runtime.graph import Graph, Node
from runtime.operators.table import node_macs

_MEANS = frozenset({"ReduceSum", "ReduceMean"})


def longest_sum(graph: Graph) -> int:
    """Terms of the longest sum of any element that a node computes; 1 where nothing is added up."""
    return max((_terms(graph, node) for node in graph.nodes), default=1)


def _terms(graph: Graph, node: Node) -> int:
    if node.op == "StridedProduct":
        return math.prod(node.attrs["summed"])
    if node.op == "StridedReduction":
        return math.prod(node.attrs["window"])
    if node.op == "Cumulation":
        return int(graph.shape(node.output)[node.attrs["axis"]])
    whole = math.prod(graph.shape(node.inputs[0])) if node.op in _MEANS else node_macs(graph, node)
    return max(1, whole // max(1, math.prod(graph.shape(node.output))))
