"""Draws a graph beside a list of its nodes: each node on a lane, each edge along the lane of the node it leaves. Pure.

The nodes stay in run order, so that a graph of a thousand nodes is a list that one can scroll and search. A node keeps
its lane until its last reader, so that lines cross only where a branch begins or ends.
"""

import dataclasses
import heapq
from collections.abc import Sequence


@dataclasses.dataclass(frozen=True)
class Lanes:
    """The lane of each node, how many lanes there are, and the edges as (from node, to node)."""

    lanes: Sequence[int]
    count: int
    edges: Sequence[tuple[int, int]]


def lanes_of(reads: Sequence[Sequence[int]]) -> Lanes:
    """Lanes of nodes in run order; `reads` has the earlier nodes that each reads."""
    last_reader = {source: node for node, sources in enumerate(reads) for source in sources}
    ending: dict[int, list[int]] = {}
    for source, node in last_reader.items():
        ending.setdefault(node, []).append(source)
    lanes: list[int] = []
    free: list[int] = []
    count = 0
    for node in range(len(reads)):
        for source in ending.get(node, ()):
            heapq.heappush(free, lanes[source])
        if free:
            lanes.append(heapq.heappop(free))
        else:
            lanes.append(count)
            count += 1
        if node not in last_reader:  # nobody reads it
            heapq.heappush(free, lanes[node])
    edges = [(source, node) for node, sources in enumerate(reads) for source in sources]
    return Lanes(lanes, count, edges)
