"""What arithmetic does to a network: what half cannot hold, and how long the sums are, whose orders may differ."""

import math
from collections.abc import Iterator, Mapping

import numpy as np

from runtime.graph import Array, Graph, Node
from runtime.operators.table import node_macs

LARGEST_HALF = float(np.finfo(np.float16).max)


def beyond_half(graph: Graph, values: Mapping[str, Array]) -> str:
    """Says which tensor, in run order, is the first that leaves half's range, and what to do; empty where none does.

    `values` are all tensors of the graph by name, in float32.
    """
    for what, name in _in_run_order(graph):
        largest = float(np.abs(values[name]).max(initial=0.0))
        if not largest <= LARGEST_HALF:
            reach = f"reaches {largest:,.0f} where half holds {LARGEST_HALF:,.0f}"
            return f"{what} is the first to leave half's range ({reach}); set data_type: fp32_fp32"
    return ""


def _in_run_order(graph: Graph) -> Iterator[tuple[str, str]]:
    """Every tensor with its description."""
    for name in graph.inputs:
        yield f"input {name!r}", name
    for node in graph.nodes:
        operator = f"operator {node.name!r} ({node.op})"
        for name in filter(graph.is_constant, node.inputs):
            yield f"constant {name!r} of {operator}", name
        yield f"the output of {operator}", node.output


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
