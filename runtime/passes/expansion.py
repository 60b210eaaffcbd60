"""Brings quantised operators down to those that have lowerings, as the rooms of their families say.

Those that round what they compute become floats between QuantizeLinear and DequantizeLinear; these are joined to an
activation (passes/fake_quantization.py); what is left becomes steps in integers.
"""

from collections.abc import Collection, Mapping

from runtime.families.quantization.rows import INTEGER_OPERATORS
from runtime.graph import Graph
from runtime.importers.builder import GraphBuilder
from runtime.importers.handlers import EXPANSIONS
from runtime.importers.onnx_node import OnnxNode
from runtime.passes.fake_quantization import join_quantizations


def expand_operators(graph: Graph) -> Mapping[str, list[str]]:
    """Leaves no operator that has no lowering; what is known of the tensors that they write stays.

    Returns what was done, in order, with the nodes. Raises ModelError or UnsupportedError, with the node's name, where
    a step has no form.
    """
    return {
        "quantised operators in floats": _expanded(graph, EXPANSIONS.keys() - INTEGER_OPERATORS),
        "quantised and dequantised in one step": join_quantizations(graph),
        "quantised operators in integer steps": _expanded(graph, INTEGER_OPERATORS),
    }


def _expanded(graph: Graph, operators: Collection[str]) -> list[str]:
    """Puts other nodes in the place of those of some operators."""
    nodes = graph.nodes
    expanded = [node.name for node in nodes if node.op in operators]
    if not expanded:
        return []
    builder = GraphBuilder.over(graph, (node for node in nodes if node.op not in operators))
    for node in nodes:
        if node.op not in operators:
            graph.nodes.append(node)
            continue
        known = graph.tensors[node.output].quantization
        source = OnnxNode(node.op, node.name, tuple(node.inputs), tuple(node.outputs), 0, node.attrs)
        EXPANSIONS[node.op](source, builder)
        builder.describe(node.output, known)
    builder.settle()
    return expanded
