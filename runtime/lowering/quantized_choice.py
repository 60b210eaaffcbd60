"""Chooses the nodes that work on eight bits, and the tensors that are stored so.

An operator takes its inputs in eight bits where what writes them rounds them to whole steps of one scale and stores
them so. Of one that gains more than that takes, the input is brought into eight bits. What only rounds a result is
computed with it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator

from runtime.graph import Graph, Node
from runtime.lowering.builder import IMAGE_RANK, Builder
from runtime.lowering.tables import BLOCKED_OPERATORS, BYTE_OPERATORS, QUANTIZED_OPERATORS
from runtime.lowering.value import InBytes
from runtime.semantics.quantization import EIGHT_BITS

_ROUNDING = "FakeQuantize"
_MOVING = (_ROUNDING, "Reshape")  # compute nothing from bytes, so that who reads floats is better served with these


def choose_quantized(builder: Builder, kept: Collection[str]) -> InBytes:
    """Of all nodes of a graph; `kept`: tensors that are to be had as the graph has them."""
    graph = builder.graph
    rounded, nodes = set[str](), dict[str, str]()
    behind = roundings(graph, {*kept, *graph.outputs})
    for node in graph.nodes:
        operator = QUANTIZED_OPERATORS.get(node.op)
        if operator is None or node.output in rounded or node.output in builder.options.cpu.in_floats:
            continue
        is_joined = operator.rounds and not _rounds(node) and node.output in behind
        result = behind[node.output] if is_joined else node.output
        is_whole = (operator.rounds or _rounds(node)) and _is_known(builder, result)
        if (operator.rounds and not is_whole) or not operator.serves(builder, node):
            continue
        if all(name in rounded for name in _inputs(graph, node)) or operator.pays(builder, node):
            nodes[node.output] = result
            rounded |= {result} if is_whole else set()
    return _needed(graph, nodes, rounded)


def _needed(graph: Graph, nodes: dict[str, str], rounded: Collection[str]) -> InBytes:
    """Without what only rounds, or computes on rounded rows, for nobody who reads bytes."""
    read, tensors = set[str](), set[str]()
    for node in reversed(graph.nodes):
        result = nodes.get(node.output, "")
        if result not in read and (node.op in _MOVING or (result and _is_idle(graph, node))):
            nodes.pop(node.output, None)
        elif result:
            read.update(_inputs(graph, node), filter(None, [node.input(3)]))
            if result in rounded and (result in read or QUANTIZED_OPERATORS[node.op].rounds):
                tensors.add(result)
    return InBytes(nodes, tensors)


def _is_idle(graph: Graph, node: Node) -> bool:
    """Whether a function whose result nobody reads in bytes reads only what was row-major floats before."""
    sources = [graph.producer(name) for name in _inputs(graph, node)]
    rounded = [graph.producer(each.inputs[0]) for each in sources if each is not None and each.op == _ROUNDING]
    is_plain = all(each is not None and each.op not in BLOCKED_OPERATORS for each in rounded)
    return QUANTIZED_OPERATORS[node.op].rounds and len(rounded) == len(sources) and is_plain


def _inputs(graph: Graph, node: Node) -> Iterator[str]:
    """What a node reads in bytes."""
    count = QUANTIZED_OPERATORS[node.op].inputs
    return (name for name in node.inputs[:count] if name and not graph.is_constant(name))


def _rounds(node: Node) -> bool:
    return node.op == _ROUNDING or node.attrs.get("activation") == "fake_quantize"


def _is_known(builder: Builder, tensor: str) -> bool:
    """Whether an image, or rows of whole blocks, hold whole steps of eight bits of one scale."""
    shape, known = builder.graph.shape(tensor), builder.graph.tensors[tensor].quantization
    fits = len(shape) == IMAGE_RANK or (len(shape) > 1 and shape[-1] % builder.block == 0)
    return fits and known is not None and known.is_whole and known.integers in EIGHT_BITS


def choose_bytes(builder: Builder, kept: Collection[str]) -> InBytes:
    """Of buffers on a GPU: the tensors that lie in bytes, as what writes and all that read them can have it.

    None is a part of another, nor had as the graph has it.
    """
    graph = builder.graph
    serving = {
        node.output for node in graph.nodes if node.op in BYTE_OPERATORS and BYTE_OPERATORS[node.op](builder, node)
    }
    rounded = (node.output for node in graph.nodes if node.output in serving and _rounds(node))
    known = (name for name in rounded if name not in {*kept, *graph.outputs} and _is_known(builder, name))
    return InBytes({}, frozenset(name for name in known if _is_read_by(graph, name, serving)))


def _is_read_by(graph: Graph, tensor: str, serving: Collection[str]) -> bool:
    """Whether nothing reads a tensor but these nodes, by their outputs, as their first input."""
    readers = graph.consumers(tensor)
    return all(each.output in serving and tensor not in each.inputs[1:] for each in readers)


def roundings(graph: Graph, kept: Collection[str]) -> dict[str, str]:
    """Tensors that nothing reads but what rounds them -> what that writes."""
    readers = Counter(name for node in graph.nodes for name in node.inputs)
    found = ((node.inputs[0], node.output) for node in graph.nodes if node.op == _ROUNDING)
    return {name: result for name, result in found if readers[name] == 1 and name not in kept}
