"""A minimum cut between two vertices: by the theorem of Ford and Fulkerson a maximum flow finds it."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

UNLIMITED = 2**31 - 1  # SciPy's flows are of int32


def near_sides(edges: Mapping[tuple[int, int], int], count: int, source: int, sink: int) -> tuple[set[int], set[int]]:
    """The vertices that a maximum flow leaves within reach of the source, and those from which the sink is in reach.

    `edges`: the capacity from one of `count` vertices to another. Each side, and whatever is not on the other, is a
    minimum cut; the two differ where there are several.
    """
    from scipy import sparse  # takes longer to import than any cut takes, and most commands make none
    from scipy.sparse import csgraph

    useful = {pair: size for pair, size in edges.items() if size and pair[0] != sink and pair[1] != source}
    values, pairs = np.array(list(useful.values()), np.int32), np.array(list(useful), np.int32).reshape(-1, 2)
    capacities = sparse.csr_array(sparse.coo_array((values, (pairs[:, 0], pairs[:, 1])), shape=(count, count)))
    residual = sparse.csr_array(capacities - csgraph.maximum_flow(capacities, source, sink).flow)
    residual.eliminate_zeros()
    reached = csgraph.breadth_first_order(residual, source, return_predecessors=False)
    reaching = csgraph.breadth_first_order(sparse.csr_array(residual.T), sink, return_predecessors=False)
    return set(reached.tolist()), set(reaching.tolist())
