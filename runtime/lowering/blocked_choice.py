"""Chooses the nodes that work on blocked activations, so that the fewest bytes are reordered: a minimum cut.

Operators that gain from blocks (`wanted`) take them, and those that cannot work on them do not; the others may do
either. A tensor is reordered, once for all who want it so, where its writer and its readers are not all on one side:
it is a hyperedge whose capacity is its bytes, made of two vertices as in passes/transpose_movement/minimum_cut.py.
"""

import math
from collections.abc import Iterable

import numpy as np

from runtime.graph import Graph, Node
from runtime.lowering.minimum_cut import UNLIMITED, near_sides
from runtime.lowering.tables import BLOCKED_OPERATORS

_BLOCKED, _PLAIN = 0, 1  # source and sink


def choose_blocked(graph: Graph, block: int) -> frozenset[str]:
    """Outputs of the nodes that work on blocks of so many channels."""
    free = [node for node in graph.nodes if _fits(graph, node, block)]
    wanted = {node.output for node in free if BLOCKED_OPERATORS[node.op].wanted}
    if not wanted:
        return frozenset()
    vertices = {node.output: _BLOCKED if node.output in wanted else at for at, node in enumerate(free, 2)}
    edges, count = _network(2 + len(free), list(_groups(graph, vertices)))
    _, near_plain = near_sides(edges, count, _BLOCKED, _PLAIN)
    return frozenset(name for name, vertex in vertices.items() if vertex not in near_plain)


def _fits(graph: Graph, node: Node, block: int) -> bool:
    tensors = [name for name in (*node.inputs, node.output) if name]
    if node.op not in BLOCKED_OPERATORS or any(graph.tensors[name].dtype != np.float32 for name in tensors):
        return False
    return BLOCKED_OPERATORS[node.op].fits(graph, node, block)


def _groups(graph: Graph, vertices: dict[str, int]) -> Iterable[tuple[int, set[int]]]:
    """Bytes of each tensor with four axes, and the vertices of its writer and its readers."""
    readers: dict[str, set[int]] = {name: {_PLAIN} for name in graph.outputs}
    for node in graph.nodes:
        takes_either = node.op in BLOCKED_OPERATORS and BLOCKED_OPERATORS[node.op].takes_either(graph, node)
        for name in node.inputs[takes_either:]:
            readers.setdefault(name, set()).add(vertices.get(node.output, _PLAIN))
    for name, members in readers.items():
        if name and not graph.is_constant(name) and len(graph.shape(name)) == 4:
            yield 4 * math.prod(graph.shape(name)), members | {vertices.get(name, _PLAIN)}


def _network(count: int, groups: list[tuple[int, set[int]]]) -> tuple[dict[tuple[int, int], int], int]:
    """Capacities from vertex to vertex (source, sink, nodes, then two for each tensor that is shared), how many."""
    shared = [(size, members) for size, members in groups if len(members) > 1]
    unit = max(1, sum(size for size, _ in shared) // 2**29)
    edges: dict[tuple[int, int], int] = {}
    for index, (size, members) in enumerate(shared):
        first = count + 2 * index
        edges[first, first + 1] = -(-size // unit)
        for member in members:
            edges[member, first] = edges[first + 1, member] = UNLIMITED
    return edges, count + 2 * len(shared)
