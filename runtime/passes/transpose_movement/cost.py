"""What the Transposes of a graph cost: the measure that falls with each movement, so that movement ends.

A region compares its own choices, but what one region gains another may lose: how far a region reaches, and in which
frame an operator is found, depends on where the region began. The cost of the graph does not. A change is kept only
where this cost falls; it is a triple of natural numbers in lexicographic order, and no such triple falls for ever.
"""

import dataclasses
from collections.abc import Hashable

from runtime.formats.category import FormatCategory
from runtime.formats.permutation import Permutation, moves_elements
from runtime.graph import Graph, Node
from runtime.operators.table import format_category
from runtime.passes.editor import GraphEditor


@dataclasses.dataclass(frozen=True, order=True)
class Cost:
    """Bytes that Transposes move, how many Transposes there are, and how many operators stand apart.

    An operator that could move stands apart if each path to an operator of fixed format has a Transpose on it, or an
    operator of source format: it can be fused with none.
    """

    size_bytes: int
    transposes: int
    apart: int


def graph_cost(graph: Graph) -> Cost:
    """The cost of the whole graph."""
    transposes = [node for node in graph.nodes if node.op == "Transpose"]
    size = sum(transpose_bytes(graph, node.inputs[0], node.attrs["perm"]) for node in transposes)
    return Cost(size, len(transposes), _apart(graph))


def transpose_bytes(graph: Graph, tensor: str, perm: Permutation) -> int:
    """Bytes that a transposition moves: none where no element changes its place."""
    info = graph.tensors[tensor]
    return info.size * info.dtype.itemsize if moves_elements(info.shape, perm) else 0


def is_fixed(editor: GraphEditor, node: Node) -> bool:
    """Whether a node is of fixed format, or a Reshape of what such a node writes: a convolution along one axis."""
    writer = editor.producer(node.inputs[0]) if node.op == "Reshape" else node
    return writer is not None and format_category(writer.op) == FormatCategory.FIXED


def _apart(graph: Graph) -> int:
    editor, sets = GraphEditor(graph), DisjointSets()
    movable = [node for node in graph.nodes if _can_move(node)]
    fixed = [node for node in graph.nodes if is_fixed(editor, node)]
    for node in (*movable, *fixed):
        sets.join(node.output, *(name for name in node.inputs if name and not graph.is_constant(name)))
    sets.join("", *(node.output for node in fixed))  # no tensor has the empty name
    return sum(sets.found(node.output) != sets.found("") for node in movable)


def _can_move(node: Node) -> bool:
    return node.op != "Transpose" and format_category(node.op) == FormatCategory.TRANSPOSABLE


class DisjointSets:
    """Sets that begin with one element each and are joined."""

    def __init__(self) -> None:
        self._parents: dict[Hashable, Hashable] = {}

    def found(self, element: Hashable) -> Hashable:
        """The element that stands for the set of this one."""
        parents = self._parents
        while (parent := parents.setdefault(element, element)) != element:
            parents[element] = element = parents[parent]
        return element

    def join(self, first: Hashable, *others: Hashable) -> None:
        """Makes one set of the sets of all these elements."""
        for other in others:
            self._parents[self.found(other)] = self.found(first)
