"""Brings operators that no device has down to those that have lowerings, as the rooms of their families say.

It is the last to see quantised operators as such: what fuses them comes before it.
"""

from __future__ import annotations

from runtime.graph import Graph
from runtime.importers.builder import GraphBuilder
from runtime.importers.handlers import EXPANSIONS
from runtime.importers.onnx_node import OnnxNode


def expand_operators(graph: Graph) -> list[str]:
    """Puts other nodes in the place of some; what is known of the tensors that they write stays. Returns the nodes.

    Raises ModelError or UnsupportedError, with the node's name, where a step of the expansion has no form.
    """
    nodes = graph.nodes
    expanded = [node.name for node in nodes if node.op in EXPANSIONS]
    if not expanded:
        return []
    builder = GraphBuilder.over(graph, (node for node in nodes if node.op not in EXPANSIONS))
    for node in nodes:
        if node.op not in EXPANSIONS:
            graph.nodes.append(node)
            continue
        known = graph.tensors[node.output].quantization
        source = OnnxNode(node.op, node.name, tuple(node.inputs), tuple(node.outputs), 0, node.attrs)
        EXPANSIONS[node.op](source, builder)
        builder.describe(node.output, known)
    builder.settle()
    return expanded
