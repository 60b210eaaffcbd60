"""Chooses the nodes that work on eight bits, and the tensors that are stored so.

An operator takes its inputs in eight bits where what writes them rounds them to whole steps of one scale and stores
them so; where the source rounds by fixed point, wherever it can, as floats do not round so. Of one that gains more
than that takes, the input is brought into eight bits. What only rounds a result is computed with it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping

from runtime.graph import Graph, Node
from runtime.lowering.blocks import QuantizedOperator
from runtime.lowering.builder import IMAGE_RANK, Builder
from runtime.lowering.options import Options
from runtime.lowering.tables import BLOCKED_OPERATORS, BYTE_FUSIONS, byte_operators
from runtime.lowering.value import InBytes
from runtime.oracle.fixed_point import fixed_point_of
from runtime.semantics.quantization import EIGHT_BITS
from runtime.target import Target
from runtime.types import Dot

_ROUNDING = "FakeQuantize"
_MOVING = (_ROUNDING, "Reshape")  # compute nothing from bytes, so that who reads floats is better served with these


def choose_quantized(builder: Builder, kept: Collection[str]) -> InBytes:
    """Of all nodes of a graph; `kept`: tensors that are to be had as the graph has them."""
    graph, operators = builder.graph, byte_operators(builder.target)
    rounded, nodes = set[str](), dict[str, str]()
    behind = roundings(graph, {*kept, *graph.outputs})

    def is_exact(node: Node, operator: QuantizedOperator) -> bool:
        """Whether bytes alone are rounded as the source does it, whatever it takes to bring the input into them.

        Not on a GPU without dot products: its neighbours are floats more often, so that nothing would be exact.
        """
        stays = builder.target.memory == "cpu" or builder.target.dot != Dot.NONE
        return stays and _is_fixed(builder, node) and all(_is_known(builder, x) for x in _inputs(graph, node, operator))

    for node in graph.nodes:
        operator = operators.get(node.op)
        if operator is None or node.output in rounded or node.output in builder.options.cpu.in_floats:
            continue
        is_joined = operator.rounds and not _rounds(node) and node.output in behind
        result = behind[node.output] if is_joined else node.output
        is_whole = operator.finds_steps or ((operator.rounds or _rounds(node)) and _is_known(builder, result))
        if (operator.rounds and not is_whole) or not operator.serves(builder, node):
            continue
        are_there = all(name in rounded for name in _inputs(graph, node, operator))
        if are_there or operator.pays(builder, node) or is_exact(node, operator):
            nodes[node.output] = result
            rounded |= {result} if is_whole else set()
    return _needed(builder, operators, nodes, rounded)


def fused_in_bytes(graph: Graph, target: Target, options: Options) -> Graph:
    """The graph as a CPU that computes in eight bits has it: nodes that one step computes in bytes are one."""
    if target.memory != "cpu" or options.choice or not (options.cpu.quantized and target.cpu_quantized):
        return graph
    for fuse in BYTE_FUSIONS:
        graph = fuse(graph, {*options.keep, *options.cpu.in_floats}, options.cpu.block or target.cpu_block)
    return graph


def _needed(
    builder: Builder, operators: Mapping[str, QuantizedOperator], nodes: dict[str, str], rounded: Collection[str]
) -> InBytes:
    """Without what only rounds, or computes on rounded rows, for nobody who reads bytes."""
    graph, read, tensors = builder.graph, set[str](), set[str]()
    for node in reversed(graph.nodes):
        result = nodes.get(node.output, "")
        if result not in read and (node.op in _MOVING or (result and _is_idle(builder, node, operators[node.op]))):
            nodes.pop(node.output, None)
        elif result:
            read.update(_inputs(graph, node, operators[node.op]), filter(None, [node.input(3)]))
            if result in rounded and (result in read or operators[node.op].rounds or _is_fixed(builder, node)):
                tensors.add(result)
    return InBytes(nodes, tensors)


def _is_idle(builder: Builder, node: Node, operator: QuantizedOperator) -> bool:
    """Whether a function whose result nobody reads in bytes reads only what was row-major floats before, on a CPU."""
    graph = builder.graph
    sources = [graph.producer(name) for name in _inputs(graph, node, operator)]
    rounded = [graph.producer(each.inputs[0]) for each in sources if each is not None and each.op == _ROUNDING]
    is_plain = all(each is not None and each.op not in BLOCKED_OPERATORS for each in rounded)
    is_free = operator.rounds and not operator.is_only and not _is_fixed(builder, node)
    is_alone = builder.target.memory == "cpu" and is_free
    return is_alone and len(rounded) == len(sources) and is_plain


def _inputs(graph: Graph, node: Node, operator: QuantizedOperator) -> Iterator[str]:
    """What a node reads in bytes."""
    return (name for name in node.inputs[: operator.inputs] if name and not graph.is_constant(name))


def _is_fixed(builder: Builder, node: Node) -> bool:
    """Whether the source rounds by fixed point, as kernels that compute in eight bits do."""
    return fixed_point_of(builder.graph, node) is not None


def _rounds(node: Node) -> bool:
    return node.op == _ROUNDING or node.attrs.get("activation") == "fake_quantize"


def _is_known(builder: Builder, tensor: str) -> bool:
    """Whether an image, or on a CPU rows of whole blocks, hold whole steps of eight bits of one scale."""
    shape, known = builder.graph.shape(tensor), builder.graph.tensors[tensor].quantization
    is_whole = builder.target.memory != "cpu" or (len(shape) > 1 and shape[-1] % builder.block == 0)
    fits = len(shape) == IMAGE_RANK or is_whole
    return fits and known is not None and known.is_whole and known.integers in EIGHT_BITS


def roundings(graph: Graph, kept: Collection[str]) -> dict[str, str]:
    """Tensors that nothing reads but what rounds them -> what that writes."""
    readers = Counter(name for node in graph.nodes for name in node.inputs)
    found = ((node.inputs[0], node.output) for node in graph.nodes if node.op == _ROUNDING)
    return {name: result for name, result in found if readers[name] == 1 and name not in kept}
