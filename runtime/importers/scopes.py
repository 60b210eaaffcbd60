"""Names of tensors as ONNX's scopes have them: a body sees those of the outside, and its own go before them."""

from collections.abc import Iterable, Iterator, Mapping

import onnx
from onnx import NodeProto


def bodies(node: NodeProto) -> Iterator[onnx.GraphProto]:
    """The graphs that a node has as attributes: branches, and bodies of loops."""
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield attribute.g
        yield from attribute.graphs


def names_read(node: NodeProto) -> Iterator[str]:
    """The tensors of the outside that a node reads, its bodies included."""
    yield from filter(None, node.input)
    for body in bodies(node):
        yield from _read_by(body)


def _read_by(body: onnx.GraphProto) -> Iterator[str]:
    own = set(given_names(body))
    for node in body.node:
        yield from (name for name in names_read(node) if name not in own)
        own.update(node.output)
    yield from (value.name for value in body.output if value.name not in own)


def given_names(graph: onnx.GraphProto) -> Iterator[str]:
    """The names of what a graph has before its first node: inputs and constants."""
    yield from (value.name for value in graph.input)
    yield from constant_names(graph)


def constant_names(graph: onnx.GraphProto) -> Iterator[str]:
    """The names of a graph's constants."""
    yield from (tensor.name for tensor in graph.initializer)
    yield from (tensor.values.name for tensor in graph.sparse_initializer)


def all_names(nodes: Iterable[NodeProto]) -> Iterator[str]:
    """Every name of a tensor that nodes write or read, in their bodies too."""
    for node in nodes:
        yield from (*node.input, *node.output)
        for body in bodies(node):
            yield from given_names(body)
            yield from all_names(body.node)


def renamed(node: NodeProto, names: Mapping[str, str]) -> NodeProto:
    """A copy of a node, in which tensors of the outside have other names: old -> new."""
    copy = NodeProto()
    copy.CopyFrom(node)
    _rename(copy, names)
    copy.output[:] = [names.get(name, name) for name in copy.output]
    return copy


def _rename(node: NodeProto, names: Mapping[str, str]) -> None:
    node.input[:] = [names.get(name, name) for name in node.input]
    for body in bodies(node):
        own = set(given_names(body))
        outer = {old: new for old, new in names.items() if old not in own}
        for inner in body.node:
            _rename(inner, outer)
            outer = {old: new for old, new in outer.items() if old not in inner.output}
        for value in body.output:
            value.name = outer.get(value.name, value.name)
