"""Chooses the frame of each operator of a region so that the fewest bytes are transposed: a minimum cut.

The network. Source and sink are frame 0 and frame 1; each operator of the region is a vertex. What is pinned to a frame
is the source or the sink itself. A group, that is a tensor with its writer and all of its readers, must be
transposed, once for all who want the other frame, exactly where its members are not all on one side of the cut: it is a
hyperedge whose capacity is the tensor's bytes. Each hyperedge gets two vertices, a and b, with an edge a -> b of that
capacity and edges of unlimited capacity from each member to a and from b to each member. Where members stand on both
sides a is on the source's side and b on the sink's, and the edge between them is cut; else it is not. So the capacity
of a minimum s-t cut is the least number of bytes (E. L. Lawler, "Cutsets and partitions of hypergraphs", Networks 3,
1973). Constants are transposed at conversion and stand
in no group; an operand of fewer axes is a group that is pinned to the frame that it is read in now.

Of the cuts of the fewest bytes one with the fewest Transposes is wanted: capacities are multiplied, and a one is added
to each. Two minimum cuts come out of one flow: what the source still reaches, and what does not reach the sink any
more. The one is taken that has more operators in one frame, without a Transpose between, with an operator of
fixed format, since there they can be fused; and the current choice stays where neither is better. `cost.py` says why
repetition ends.
"""

import math
from collections.abc import Hashable, Sequence

from runtime.lowering.minimum_cut import UNLIMITED, near_sides
from runtime.passes.transpose_movement.cost import Cost, DisjointSets
from runtime.passes.transpose_movement.regions import NEVER, Region, TensorGroup

SOURCE, SINK = 0, 1

Frames = Sequence[int]


def best_frames(region: Region) -> list[int] | None:
    """The frame of each operator at the least cost; None where nothing becomes better."""
    current = [movable.frame for movable in region.operators]
    size = sum(region.groups[region.root(name)].size_bytes for name in region.dissolved)
    now = Cost(size + _own_bytes(region, current), len(region.dissolved), _apart(region, current))
    costs = [(cut_cost(region, frames), frames) for frames in minimum_cuts(region)]
    best, frames = min(costs, key=lambda pair: pair[0])
    return frames if best < now else None


def cut_cost(region: Region, frames: Frames) -> Cost:
    """What it costs to have the operators in these frames."""
    cut = [group for group in region.groups.values() if _is_cut(group, frames)]
    size = sum(group.size_bytes for group in cut) + _own_bytes(region, frames)
    return Cost(size, len(cut), _apart(region, frames))


def _own_bytes(region: Region, frames: Frames) -> int:
    return sum(movable.sizes[frame] for movable, frame in zip(region.operators, frames, strict=True))


def _is_cut(group: TensorGroup, frames: Frames) -> bool:
    return len({frame for frame, _ in group.pins} | {frames[index] for index in group.operators}) > 1


def _apart(region: Region, frames: Frames) -> int:
    """Operators that no path without a Transpose joins with one of fixed format, within the region."""
    sets = DisjointSets()
    for group in region.groups.values():
        for frame in (0, 1):
            members: list[Hashable] = [index for index in group.operators if frames[index] == frame]
            members += ["fixed"] if (frame, True) in group.pins else []
            sets.join(*members) if members else None
    fusible = (index for index, movable in enumerate(region.operators) if movable.node.op != "Transpose")
    return sum(sets.found(index) != sets.found("fixed") for index in fusible)


def minimum_cuts(region: Region) -> list[list[int]]:
    """The minimum cuts with the most operators in frame 1, and in frame 0."""
    near_source, near_sink = near_sides(*_network(region), SOURCE, SINK)
    vertices = range(2, 2 + len(region.operators))
    return [[int(at not in near_source) for at in vertices], [int(at in near_sink) for at in vertices]]


def _network(region: Region) -> tuple[dict[tuple[int, int], int], int]:
    """Capacities from vertex to vertex (source, sink, operators, then two for each group), and how many there are."""
    groups = [group for group in region.groups.values() if len(_members(group)) > 1]
    own_sizes = [size for movable in region.operators for size in movable.sizes]
    scale = _Scale([group.size_bytes for group in groups if group.size_bytes != NEVER], own_sizes)
    edges: dict[tuple[int, int], int] = {}
    for vertex, movable in enumerate(region.operators, 2):
        edges[vertex, SINK], edges[SOURCE, vertex] = map(scale.without_one, movable.sizes)
    vertex = 2 + len(region.operators)
    for group in groups:
        bounded = group.size_bytes != NEVER
        edges[vertex, vertex + 1] = scale.without_one(group.size_bytes) + scale.one if bounded else UNLIMITED
        for member in _members(group):
            edges[member, vertex] = edges[vertex + 1, member] = UNLIMITED
        vertex += 2
    return edges, vertex


def _members(group: TensorGroup) -> set[int]:
    return {frame for frame, _ in group.pins} | {2 + index for index in group.operators}


class _Scale:
    """Bytes as capacities: in the largest common unit, times a factor: `one` for each group is less than a unit.

    Where the sum leaves no room for that below `UNLIMITED`, `one` is 0. Beyond 2^30 units sizes are rounded up.
    """

    def __init__(self, groups: Sequence[int], others: Sequence[int]) -> None:
        total = sum(groups) + sum(others)
        self._unit = max(math.gcd(*groups, *others), -(-total // (UNLIMITED // 2)), 1)
        factor = min(len(groups) + 1, (UNLIMITED // 2) // max(1, total // self._unit))
        self._factor = max(factor, 1)
        self.one = int(factor > len(groups))

    def without_one(self, size: int) -> int:
        """The capacity that stands for so many bytes."""
        return -(-size // self._unit) * self._factor
