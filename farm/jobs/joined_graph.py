"""Joins graphs of one node each to one graph, so that one plan tries them all."""

from __future__ import annotations

from collections.abc import Iterable

from runtime.graph import Graph


def joined_graph(title: str, parts: Iterable[tuple[str, str, Graph]]) -> Graph:
    """One graph of all nodes, whose outputs are theirs.

    Args:
        title: the graph's name.
        parts: the name that a node and its output get, the prefix of the tensors that it reads, and its graph; those
            of one prefix read the same tensors.
    """
    merged = Graph(title, [], [], [], {}, {})
    for name, prefix, single in parts:
        (node,) = single.nodes
        node.inputs = [f"{prefix}:{read}" if read else "" for read in node.inputs]
        node.name, node.outputs = name, [name]
        merged.nodes.append(node)
        merged.outputs.append(name)
        read = [f"{prefix}:{each}" for each in single.inputs]
        merged.inputs += [each for each in read if each not in merged.tensors]
        named = {f"{prefix}:{each}": info for each, info in single.tensors.items() if each != "y"}
        merged.tensors |= {**named, name: single.tensors["y"]}
        merged.constants |= {f"{prefix}:{each}": value for each, value in single.constants.items()}
    return merged
