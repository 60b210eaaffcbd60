"""Joins graphs of single operators to one graph, so that one plan tries them all."""

from collections.abc import Iterable

from runtime.graph import Graph


def joined_graph(title: str, parts: Iterable[tuple[str, str, Graph]]) -> Graph:
    """One graph of all nodes, whose outputs are theirs.

    Args:
        title: the graph's name.
        parts: the name that an operator and its output get, the prefix of the inputs and constants that it reads, and
            its graph, whose node of the graph's own name it is; those of one prefix read the same.
    """
    merged = Graph(title, [], [], [], {}, {})
    for name, prefix, single in parts:
        given = {each: f"{prefix}:{each}" for each in (*single.inputs, *single.constants)}
        made = {each: name if each == "y" else f"{name}:{each}" for node in single.nodes for each in node.outputs}
        renamed = {"": "", **given, **made}
        for node in single.nodes:
            node.inputs = [renamed[read] for read in node.inputs]
            node.outputs = [renamed[written] for written in node.outputs]
            node.name = name if node.name == single.name else f"{name}:{node.name}"
            merged.nodes.append(node)
        merged.outputs.append(name)
        merged.inputs += [given[each] for each in single.inputs if given[each] not in merged.tensors]
        merged.tensors |= {renamed[each]: info for each, info in single.tensors.items()}
        merged.constants |= {given[each]: value for each, value in single.constants.items()}
    return merged
