"""Chooses the nodes that work on eight bits, and the tensors that are stored so.

An operator takes its input in eight bits where that holds whole steps of one scale. Where what writes the input writes
them so itself, nothing has to be brought into them; else the operator must gain more than that takes.
"""

from __future__ import annotations

from collections.abc import Collection

from runtime.graph import Graph, Node
from runtime.lowering.builder import Builder
from runtime.lowering.tables import QUANTIZED_OPERATORS
from runtime.lowering.value import InBytes
from runtime.semantics.quantization import EIGHT_BITS


def choose_quantized(builder: Builder, blocked: Collection[str]) -> InBytes:
    """Of the nodes that work on blocks of channels, and those that only round to eight bits."""
    graph = builder.graph
    rounded, chosen = set[str](), set[str]()
    for node in graph.nodes:
        if node.op == "FakeQuantize" and len(graph.shape(node.output)) == 4 and _is_known(graph, node.output):
            rounded.add(node.output)
        elif node.output in blocked and _is_chosen(builder, node, rounded):
            chosen.add(node.output)
            if node.attrs.get("activation") == "fake_quantize" and _is_known(graph, node.output):
                rounded.add(node.output)
    read = {name for node in graph.nodes if node.output in chosen for name in (node.inputs[0], node.input(3))}
    tensors = rounded & read
    rounding = {node.output for node in graph.nodes if node.op == "FakeQuantize"} & tensors
    return InBytes(chosen | rounding, tensors)


def _is_known(graph: Graph, tensor: str) -> bool:
    """Whether a tensor holds whole steps of eight bits of one scale."""
    known = graph.tensors[tensor].quantization
    return known is not None and known.is_whole and known.integers in EIGHT_BITS


def _is_chosen(builder: Builder, node: Node, rounded: Collection[str]) -> bool:
    operator = QUANTIZED_OPERATORS.get(node.op)
    if operator is None or not _is_known(builder.graph, node.inputs[0]) or not operator.serves(builder, node):
        return False
    return node.inputs[0] in rounded or operator.pays(builder.graph, node)
