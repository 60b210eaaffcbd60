"""A minimum cut between two vertices: by the theorem of Ford and Fulkerson a maximum flow finds it."""

from collections.abc import Mapping

import numpy as np

UNLIMITED = 2**31 - 1  # SciPy's flows are of int32
FEW_EDGES = 1000  # a search here finds the flow through these before SciPy is imported, which takes 0.2 s

Edges = Mapping[tuple[int, int], int]


def near_sides(edges: Edges, count: int, source: int, sink: int) -> tuple[set[int], set[int]]:
    """The vertices that a maximum flow leaves within reach of the source, and those from which the sink is in reach.

    `edges`: the capacity from one of `count` vertices to another. Each side, and whatever is not on the other, is a
    minimum cut; the two differ where there are several. Which of several maximum flows is found changes neither.
    """
    useful = {pair: size for pair, size in edges.items() if size and pair[0] != sink and pair[1] != source}
    sides = searched_sides if len(useful) <= FEW_EDGES else scipy_sides
    return sides(useful, count, source, sink)


def scipy_sides(edges: Edges, count: int, source: int, sink: int) -> tuple[set[int], set[int]]:
    """The same by SciPy."""
    from scipy import sparse
    from scipy.sparse import csgraph

    values, pairs = np.array(list(edges.values()), np.int32), np.array(list(edges), np.int32).reshape(-1, 2)
    capacities = sparse.csr_array(sparse.coo_array((values, (pairs[:, 0], pairs[:, 1])), shape=(count, count)))
    residual = sparse.csr_array(capacities - csgraph.maximum_flow(capacities, source, sink).flow)
    residual.eliminate_zeros()
    reached = csgraph.breadth_first_order(residual, source, return_predecessors=False)
    reaching = csgraph.breadth_first_order(sparse.csr_array(residual.T), sink, return_predecessors=False)
    return set(reached.tolist()), set(reaching.tolist())


def searched_sides(edges: Edges, count: int, source: int, sink: int) -> tuple[set[int], set[int]]:
    """The same by shortest paths that each add to the flow (J. Edmonds and R. M. Karp, 1972)."""
    residual: list[dict[int, int]] = [{} for _ in range(count)]
    for (start, end), capacity in edges.items():
        residual[start][end] = residual[start].get(end, 0) + capacity
        residual[end].setdefault(start, 0)
    while sink in (before := _reached(residual, source)):
        ends = [sink]
        while ends[-1] != source:
            ends.append(before[ends[-1]])
        path = list(zip(ends[1:], ends, strict=False))
        size = min(residual[start][end] for start, end in path)
        for start, end in path:
            residual[start][end] -= size
            residual[end][start] += size
    backward: list[dict[int, int]] = [{} for _ in range(count)]
    for start, capacities in enumerate(residual):
        for end, capacity in capacities.items():
            backward[end][start] = capacity
    return set(before), set(_reached(backward, sink))


def _reached(residual: list[dict[int, int]], source: int) -> dict[int, int]:
    """Each vertex within reach, the nearest first, and the one before it."""
    before, nearest = {source: source}, [source]
    for vertex in nearest:  # grows meanwhile
        for end, capacity in residual[vertex].items():
            if capacity and end not in before:
                before[end] = vertex
                nearest.append(end)
    return before
