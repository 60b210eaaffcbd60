"""What a converter could not express in ONNX, and leaves under the framework's names: expressed here, or refused."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping

import onnx
from onnx import helper

from runtime.errors import UnsupportedError
from runtime.frameworks.names import nodes_of

MAX_LISTED = 12


def express_operators(model: onnx.ModelProto) -> None:
    """Replaces those of the framework's operators that ONNX's express, in inner graphs too."""
    _express(model.graph)


def _express(graph: onnx.GraphProto) -> None:
    nodes = [each for node in graph.node for each in _expressed(node)]
    del graph.node[:]
    graph.node.extend(nodes)
    for node in graph.node:
        for attribute in node.attribute:
            for inner in ([attribute.g] if attribute.HasField("g") else []) + list(attribute.graphs):
                _express(inner)


def _expressed(node: onnx.NodeProto) -> Iterable[onnx.NodeProto]:
    known = EXPRESSIONS.get(node.op_type) if not _is_known(node) else None
    return known(node) if known else [node]


class _Chain:
    """Nodes that stand for one: each tensor's name begins with its output's; numbers have the type of its input."""

    def __init__(self, node: onnx.NodeProto) -> None:
        self.x, self.y = node.input[0], node.output[0]
        self.nodes: list[onnx.NodeProto] = []

    def op(self, kind: str, *inputs: str | float, last: bool = False) -> str:
        """Adds a node and gives its output's name, which is the replaced node's if it is the last."""
        names = [each if isinstance(each, str) else self._number(each) for each in inputs]
        name = self.y if last else f"{self.y}:farm{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, names, [name], name))
        return name

    def _number(self, value: float) -> str:
        name = f"{self.y}:farm{len(self.nodes)}"
        self.nodes.append(helper.make_node("Constant", [], [name], name, value_float=value))
        return self.op("CastLike", name, self.x)


def _erfc(node: onnx.NodeProto) -> Iterable[onnx.NodeProto]:
    """1 - erf(x)."""
    chain = _Chain(node)
    chain.op("Sub", 1.0, chain.op("Erf", chain.x), last=True)
    return chain.nodes


def _tfl_gelu(node: onnx.NodeProto) -> Iterable[onnx.NodeProto]:
    """0.5 x (1 + erf(x / sqrt(2))), or by tanh where `approximate` is set."""
    chain = _Chain(node)
    x = chain.x
    if any(attribute.name == "approximate" and attribute.i for attribute in node.attribute):
        cubic = chain.op("Mul", chain.op("Mul", chain.op("Mul", x, x), x), 0.044715)
        inner = chain.op("Tanh", chain.op("Mul", chain.op("Add", x, cubic), math.sqrt(2 / math.pi)))
    else:
        inner = chain.op("Erf", chain.op("Div", x, math.sqrt(2)))
    chain.op("Mul", chain.op("Mul", x, chain.op("Add", inner, 1.0)), 0.5, last=True)
    return chain.nodes


EXPRESSIONS: Mapping[str, Callable[[onnx.NodeProto], Iterable[onnx.NodeProto]]] = {"Erfc": _erfc, "TFL_GELU": _tfl_gelu}


def check_operators(model: onnx.ModelProto, title: str) -> None:
    """Raises UnsupportedError that lists all operators that ONNX lacks, with their number and the first of each."""
    foreign: dict[str, list[str]] = {}
    for node in nodes_of(model.graph):
        if not _is_known(node):
            foreign.setdefault(node.op_type, []).append(node.name)
    if foreign:
        raise UnsupportedError(f"{title} operators that cannot be converted to ONNX: {listed(foreign)}")


def listed(found: dict[str, list[str]]) -> str:
    """`Name (3, the first is 'node')`, for each kind of node that was found."""
    kinds = (f"{kind} ({len(names)}, the first is {names[0]!r})" for kind, names in sorted(found.items()))
    return ", ".join(_shortened(kinds))


def _shortened(kinds: Iterable[str]) -> list[str]:
    all_kinds = list(kinds)
    more = [f"and {len(all_kinds) - MAX_LISTED} more kinds"] if len(all_kinds) > MAX_LISTED else []
    return all_kinds[:MAX_LISTED] + more


def _is_known(node: onnx.NodeProto) -> bool:
    return node.domain in ("", "ai.onnx") and onnx.defs.has(node.op_type)
