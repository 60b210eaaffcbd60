"""Rounds activations to eight bits of the range that they have as the model runs, in one step of a CPU.

As ONNX's DynamicQuantizeLinear has it: the graph does it in steps of floats, which other targets execute. Products of
what is rounded so are those of bytes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection

from runtime.graph import Graph, Node
from runtime.lowering.blocks import QuantizedOperator
from runtime.lowering.builder import IMAGE_RANK, ROUND_TO_RANGE, Builder
from runtime.lowering.value import Value
from runtime.types import Storage

# What an operator reads: what others write, a number, or a tensor of this name.
_Operand = tuple[object, ...] | float | str
_LEAST: _Operand = ("Min", ("ReduceMin", "x"), 0.0)
_STEP: _Operand = ("Div", ("Sub", ("Max", ("ReduceMax", "x"), 0.0), _LEAST), 255.0)
_ZERO: _Operand = ("cast float32", ("cast uint8", ("Round", ("Sub clip 0 255", 0.0, ("Div", _LEAST, _STEP)))))
_WITHIN: _Operand = ("Min", ("Max", ("Round", ("Div", "x", _STEP)), ("Sub", 0.0, _ZERO)), ("Sub", 255.0, _ZERO))
_ROUNDED: _Operand = ("Mul", _WITHIN, _STEP)


def fuse_roundings_to_ranges(graph: Graph, kept: Collection[str], block: int) -> Graph:
    """Makes one node of all that finds the range of a tensor and rounds it; `kept`: tensors that stay."""
    made = dict[str, Node]()
    for node in graph.nodes:
        match = _Match(graph) if node.op == "Mul" and node.output not in kept else None
        if match and match.fits(_ROUNDED, node.output) and graph.shape(node.output) == graph.shape(match.names["x"]):
            parts = {"parts": tuple(dict.fromkeys(match.nodes))}
            made[node.output] = Node(ROUND_TO_RANGE, node.name, [match.names["x"]], node.outputs, parts)
    if not made:
        return graph
    nodes, needed = list[Node](), {*graph.outputs, *kept}
    for node in reversed(graph.nodes):
        if needed.isdisjoint(node.outputs):
            continue
        nodes.append(made.get(node.output, node))
        needed.update(nodes[-1].inputs)
    return dataclasses.replace(graph, nodes=nodes[::-1])


class _Match:
    """Whether what writes a tensor is as a pattern tells; scalars may be reshaped between."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self.names: dict[str, str] = {}
        self.nodes: list[str] = []

    def fits(self, pattern: object, tensor: str) -> bool:
        """Compares, and fills the tensors of names and the names of nodes."""
        graph = self._graph
        if isinstance(pattern, str):
            return self.names.setdefault(pattern, tensor) == tensor
        if isinstance(pattern, float):
            value = graph.constants.get(tensor)
            return value is not None and value.size == 1 and float(value.reshape(())) == pattern
        node = graph.producer(tensor)
        while node is not None and node.op in ("Reshape", "Identity") and graph.tensors[tensor].size == 1:
            self.nodes.append(node.name)
            tensor = node.inputs[0]
            node = graph.producer(tensor)
        assert isinstance(pattern, tuple)
        if node is None or _label(graph, node) != pattern[0] or len(node.inputs) != len(pattern) - 1:
            return False
        self.nodes.append(node.name)
        return all(self.fits(each, name) for each, name in zip(pattern[1:], node.inputs, strict=True))


def _label(graph: Graph, node: Node) -> str:
    """An operator with those of its attributes that patterns tell."""
    if node.op == "Elementwise":
        return f"{node.attrs['function']} {node.attrs['dtype']}"
    if node.op.startswith("Reduce") and graph.tensors[node.output].size > 1:
        return f"{node.op} of some axes"
    activation = node.attrs.get("activation", "none")
    if activation == "none":
        return node.op
    return f"{node.op} {activation} {node.attrs.get('alpha', 0):g} {node.attrs.get('beta', 0):g}"


def _always(builder: Builder, node: Node) -> bool:
    return True


def _lower(builder: Builder, node: Node) -> None:
    x, y = node.inputs[0], builder.write_bytes(node.output)
    is_image = len(builder.graph.shape(x)) == IMAGE_RANK
    source = builder.home(x)
    if source.steps or source.data is not None:
        source = builder.read(x, Storage.BLOCKED if is_image else Storage.FLAT)
    if source.shape != y.shape:
        source = Value(source.name, y.shape, source.storage, source.element, 0, source)
    builder.convert(node.name, source, y, f"{source.storage.name} -> its range in eight bits")


QUANTIZED_OPERATORS = {ROUND_TO_RANGE: QuantizedOperator(_always, _lower, inputs=0, is_only=True, finds_steps=True)}
BYTE_FUSIONS = (fuse_roundings_to_ranges,)
