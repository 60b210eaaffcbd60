"""Brings quantised operators down to those that have lowerings, as the rooms of their families say.

Those that round what they compute become floats between QuantizeLinear and DequantizeLinear; these are joined to an
activation (passes/fake_quantization.py); what is left becomes steps in integers.
"""

import math
from collections.abc import Callable, Collection, Mapping

from runtime.families.quantization.expansions import scaled_product
from runtime.families.quantization.rows import INTEGER_OPERATORS
from runtime.graph import Graph, Node
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
        "integer products of scaled operands": _scaled_products(graph),
        "quantised operators in floats": _expanded(graph, EXPANSIONS.keys() - INTEGER_OPERATORS),
        "quantised and dequantised in one step": join_quantizations(graph),
        "quantised operators in integer steps": _expanded(graph, INTEGER_OPERATORS),
    }


def _scaled_products(graph: Graph) -> list[str]:
    """Puts a product of what integers stand for in the place of an integer product times both scales.

    So ONNX Runtime writes what it quantises dynamically. The integer product itself is left, which nobody may read now.
    """
    writers = {node.output: node for node in graph.nodes}
    found = {node.output: product for node in graph.nodes if (product := _scaled_product(graph, node, writers))}
    known: dict[tuple[str, ...], str] = {}
    _replace(graph, found, lambda node, builder: scaled_product(found[node.output], builder, known))
    return [product.name for product in found.values()]


def _scaled_product(graph: Graph, node: Node, writers: Mapping[str, Node]) -> OnnxNode | None:
    """What Cast(a x b) * (scale of a * scale of b) is to be read as; the scale of b is a constant."""
    for sums, scales in (node.inputs, node.inputs[::-1]) if node.op == "Mul" else ():
        cast, both = writers.get(sums), writers.get(scales)
        whole = writers.get(cast.inputs[0]) if cast is not None and _is_cast(cast, "float32") else None
        if whole is None or both is None or both.op != "Mul" or whole.op not in ("MatMulInteger", "ConvInteger"):
            continue
        for a_scale, b_scale in (both.inputs, both.inputs[::-1]):
            b = graph.shape(whole.inputs[1])
            columns = b[-1:] if whole.op == "MatMulInteger" and len(b) > 1 else ()
            fits = graph.shape(b_scale) in ((), (1,), columns) and math.prod(graph.shape(a_scale)) == 1
            if fits and b_scale in graph.constants:
                operands = (whole.inputs[0], a_scale, whole.input(2), whole.inputs[1], b_scale, whole.input(3))
                return OnnxNode(whole.op, node.name, operands, tuple(node.outputs), 0, whole.attrs)
    return None


def _is_cast(node: Node, dtype: str) -> bool:
    return node.op == "Elementwise" and node.attrs["function"] == "cast" and node.attrs["dtype"] == dtype


def _expanded(graph: Graph, operators: Collection[str]) -> list[str]:
    """Puts other nodes in the place of those of some operators."""

    def expand(node: Node, builder: GraphBuilder) -> None:
        known = graph.tensors[node.output].quantization
        source = OnnxNode(node.op, node.name, tuple(node.inputs), tuple(node.outputs), 0, node.attrs)
        EXPANSIONS[node.op](source, builder)
        builder.describe(node.output, known)

    found = {node.output: node.name for node in graph.nodes if node.op in operators}
    _replace(graph, found, expand)
    return list(found.values())


def _replace(graph: Graph, outputs: Collection[str], write: Callable[[Node, GraphBuilder], None]) -> None:
    """Lets `write` add other nodes in the place of those that write these; the others stay where they are."""
    if not outputs:
        return
    nodes = graph.nodes
    builder = GraphBuilder.over(graph, (node for node in nodes if node.output not in outputs))
    for node in nodes:
        if node.output in outputs:
            write(node, builder)
        else:
            graph.nodes.append(node)
    builder.settle()
