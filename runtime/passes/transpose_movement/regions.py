"""Regions of a graph in which transpositions may move, for one permutation and its inverse.

A region has two *frames*, orders of axes that the permutation leads between: from frame 0 to frame 1. Each tensor of a
region lies in one of them, as does each transposable operator, whose tensors (those that its rewriting permutes) are
all in its frame. A Transpose by the permutation leads from frame 0 to frame 1, one by its inverse back: such Transposes
are *dissolved*, since what they write is the tensor that they read, in the other frame. All tensors that are one but
for dissolved Transposes form a *group*, named by the one that no dissolved Transpose writes, its *root*.

A region grows from a Transpose along tensors, through transposable operators and Transposes, and ends at what cannot
move: operators of fixed or source format, inputs and outputs of the graph, and whatever would put a tensor into both
frames at once (x + transpose(x)). A Transpose that is not dissolved is an operator that can do its work from, or into,
either frame: composed with the step between the frames, it moves other bytes, or none.
"""

import dataclasses
from collections import deque
from collections.abc import Iterator

import numpy as np

from runtime.formats.permutation import Permutation, inverse, moves_elements, permuted
from runtime.formats.rewriting import Rewriting, writing_permuted
from runtime.graph import Graph, Node
from runtime.operators.table import rewritten
from runtime.passes.editor import GraphEditor
from runtime.passes.transpose_movement.cost import is_fixed, transpose_bytes

NEVER = 1 << 62  # more bytes than any choice moves


@dataclasses.dataclass
class TensorGroup:
    """One tensor in up to two frames: who is tied to it.

    Attributes:
        size_bytes: what a Transpose between the frames moves; 0 where it only moves axes of size 1, `NEVER` where there
            can be none, since the graph has no Transpose but of float32.
        pins: frames that something immovable reads or writes it in, and whether that is of fixed format.
        operators: indices of the region's operators that read or write it.
    """

    size_bytes: int
    pins: set[tuple[int, bool]] = dataclasses.field(default_factory=set)
    operators: set[int] = dataclasses.field(default_factory=set)


@dataclasses.dataclass(frozen=True)
class Movable:
    """An operator that can be in either frame.

    Attributes:
        frame: the frame that it is in.
        tensors: those that go with it.
        rewriting: what it becomes in the other frame.
        sizes: bytes that a Transpose moves in frame 0 and in frame 1; other operators move none.
    """

    node: Node
    frame: int
    tensors: frozenset[str]
    rewriting: Rewriting
    sizes: tuple[int, int] = (0, 0)


@dataclasses.dataclass
class Region:
    """What may move together.

    Attributes:
        perm: leads from frame 0 to frame 1.
        frames: frame of each tensor.
        dissolved: Transposes between the frames, by the tensor that they write.
        groups: by root, and those of the operands of fewer axes by operand and frame.
    """

    perm: Permutation
    frames: dict[str, int] = dataclasses.field(default_factory=dict)
    operators: list[Movable] = dataclasses.field(default_factory=list)
    dissolved: dict[str, Node] = dataclasses.field(default_factory=dict)
    groups: dict[str | tuple[str, int], TensorGroup] = dataclasses.field(default_factory=dict)

    def perm_from(self, frame: int) -> Permutation:
        """The permutation from a frame to the other."""
        return inverse(self.perm) if frame else self.perm

    def root(self, tensor: str) -> str:
        """The tensor that names the group."""
        while tensor in self.dissolved:
            tensor = self.dissolved[tensor].inputs[0]
        return tensor


def _step_bytes(graph: Graph, tensor: str, perm: Permutation) -> int:
    """Bytes of a Transpose that is not there yet, of a tensor with axes of size 1 in front where it has too few."""
    info = graph.tensors[tensor]
    if info.dtype != np.float32:
        return NEVER
    return info.size * info.dtype.itemsize if moves_elements(aligned(info.shape, len(perm)), perm) else 0


def find_regions(editor: GraphEditor, perm: Permutation) -> list[Region]:
    """All regions of a permutation, which share no tensor and no operator."""
    explorer = _Explorer(editor, perm)
    regions = [explorer.grown(node) for node in editor.nodes("Transpose") if explorer.is_seed(node)]
    for region in regions:
        _tie(editor, region)
    return regions


class _Explorer:
    """Grows regions; what lies in one of them is never entered again."""

    def __init__(self, editor: GraphEditor, perm: Permutation) -> None:
        self._editor, self._graph = editor, editor.graph
        self._perm, self._back = perm, inverse(perm)
        self._taken: set[str] = set()  # tensors of the regions that are complete
        self._done: set[int] = set()  # nodes of all regions

    def is_seed(self, node: Node) -> bool:
        """Whether a Transpose belongs to the permutation and touches no region yet."""
        return bool(self._directions(node)) and self._taken.isdisjoint((node.inputs[0], node.output))

    def grown(self, seed: Node) -> Region:
        """The region around a Transpose."""
        region = Region(self._perm, {seed.inputs[0]: self._directions(seed)[0][0]})
        pending = deque(region.frames)
        while pending:
            tensor = pending.popleft()
            for node in self._neighbours(tensor):
                if id(node) not in self._done:
                    pending += self._entered(region, node, tensor)
        self._taken.update(region.frames)
        return region

    def _directions(self, node: Node) -> list[tuple[int, int]]:
        """From which frame to which one a Transpose may lead; none where it is not of this permutation."""
        if node.op != "Transpose" or self._graph.is_constant(node.inputs[0]):
            return []
        matching = ((self._perm, (0, 1)), (self._back, (1, 0)))
        return [direction for perm, direction in matching if node.attrs["perm"] == perm]

    def _neighbours(self, tensor: str) -> list[Node]:
        producer = self._editor.producer(tensor)
        return [*([producer] if producer is not None else []), *self._editor.readers(tensor)]

    def _entered(self, region: Region, node: Node, tensor: str) -> list[str]:
        """Takes a node into the region where it fits; returns the tensors that are new in it."""
        placed = self._placed_transpose(region, node)
        region.dissolved |= {node.output: node} if placed else {}
        movable = None if placed else self._movable(region, node, tensor)
        if movable is not None:
            placed = dict.fromkeys(movable.tensors, movable.frame)
            region.operators.append(movable)
        if placed:
            self._done.add(id(node))
        new = [name for name in placed if name not in region.frames]
        region.frames.update(placed)
        return new

    def _placed_transpose(self, region: Region, node: Node) -> dict[str, int]:
        """Frames of the tensors of a Transpose; none where it does not lead between the frames."""
        for source, target in self._directions(node):
            placed = {node.inputs[0]: source, node.output: target}
            if self._agree(region, placed):
                return placed
        return {}

    def _movable(self, region: Region, node: Node, tensor: str) -> Movable | None:
        """A node as an operator of the region; None where it cannot move."""
        frame = region.frames[tensor]
        perm = region.perm_from(frame)
        writes = node.op == "Transpose" and tensor == node.output
        rewriting = writing_permuted(node, perm) if writes else rewritten(self._graph, node, perm)
        if rewriting is None:
            return None
        tensors = frozenset(_framed_tensors(self._graph, node, rewriting, len(perm)))
        if tensor not in tensors or not self._agree(region, dict.fromkeys(tensors, frame)):
            return None
        sizes = (0, 0) if node.op != "Transpose" else self._transposed_bytes(node, perm, rewriting)
        return Movable(node, frame, tensors, rewriting, sizes if frame == 0 else sizes[::-1])

    def _transposed_bytes(self, node: Node, perm: Permutation, rewriting: Rewriting) -> tuple[int, int]:
        """What a Transpose moves as it is, and rewritten."""
        info = self._graph.tensors[node.inputs[0]]
        shape = info.shape if rewriting.moves_output else permuted(info.shape, perm)
        moves = moves_elements(shape, rewriting.attributes["perm"])
        now = transpose_bytes(self._graph, node.inputs[0], node.attrs["perm"])
        return now, info.size * info.dtype.itemsize if moves else 0

    def _agree(self, region: Region, placed: dict[str, int]) -> bool:
        """Whether tensors can have these frames in the region."""
        return self._taken.isdisjoint(placed) and all(
            region.frames.get(name, frame) == frame for name, frame in placed.items()
        )


def _framed_tensors(graph: Graph, node: Node, rewriting: Rewriting, rank: int) -> Iterator[str]:
    """The tensors of a node that are permuted with it: those of all axes that are computed at run time."""
    for index, name in enumerate(node.inputs):
        if name and rewriting.reads_permuted(index) and not graph.is_constant(name) and len(graph.shape(name)) == rank:
            yield name
    if rewriting.moves_output:
        yield node.output


def _tie(editor: GraphEditor, region: Region) -> None:
    """Fills the region's groups."""
    graph = editor.graph
    movables = {id(movable.node): index for index, movable in enumerate(region.operators)}
    for tensor, frame in region.frames.items():
        size = _step_bytes(graph, tensor, region.perm_from(frame))
        group = region.groups.setdefault(region.root(tensor), TensorGroup(size))
        if tensor in graph.outputs or tensor in graph.inputs:
            group.pins.add((frame, False))
        producer = editor.producer(tensor)
        for node in (*editor.readers(tensor), *([producer] if producer is not None else [])):
            index = movables.get(id(node))
            if index is not None and tensor in region.operators[index].tensors:
                group.operators.add(index)
            elif region.dissolved.get(node.output) is not node:
                group.pins.add((frame, is_fixed(editor, node)))
    for index, movable in enumerate(region.operators):
        _tie_narrow_operands(graph, region, movable, index)


def aligned(shape: tuple[int, ...], rank: int) -> tuple[int, ...]:
    """A shape of fewer axes with those of size 1 in front that broadcasting adds."""
    return (1,) * (rank - len(shape)) + shape


def _tie_narrow_operands(graph: Graph, region: Region, movable: Movable, index: int) -> None:
    """An operand of fewer axes, computed at run time, is pinned where it is and must be transposed for the other."""
    frame, rank = movable.frame, len(region.perm)
    for at, name in enumerate(movable.node.inputs):
        if not name or graph.is_constant(name) or not movable.rewriting.reads_permuted(at):
            continue
        size = _step_bytes(graph, name, region.perm_from(frame)) if len(graph.shape(name)) < rank else 0
        if size:
            group = region.groups.setdefault((name, frame), TensorGroup(size, {(frame, False)}))
            group.operators.add(index)
