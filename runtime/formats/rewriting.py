"""How the arguments of an operator change where it reads permuted tensors, one rule for each kind of operator.

A rule is given the graph, a node and a permutation of as many axes as the tensors in question have. It returns a
`Rewriting`, or None where the node cannot work so: what the node then computes of the permuted inputs is its output
permuted alike, or, where `moves_output` is false, the very same output.
"""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from runtime.formats.permutation import Permutation, Shape, composed, inverse, permuted
from runtime.graph import Graph, Node
from runtime.semantics.generic import row_major_strides
from runtime.semantics.generic_forms import gather_form, reduction_form, view_form


@dataclasses.dataclass(frozen=True)
class Rewriting:
    """What changes in a node: its attributes, and which of its inputs it reads permuted (None: all).

    Inputs of fewer axes count as if axes of size 1 stood before theirs, as broadcasting has it.
    """

    attributes: dict[str, Any]
    inputs: frozenset[int] | None = None
    moves_output: bool = True

    def reads_permuted(self, index: int) -> bool:
        """Whether an input is among those that are read permuted."""
        return self.inputs is None or index in self.inputs


Rule = Callable[[Graph, Node, Permutation], Rewriting | None]


def broadcasting(graph: Graph, node: Node, perm: Permutation) -> Rewriting | None:
    """Element-wise operators of any number of inputs keep their attributes."""
    return Rewriting(node.attrs) if len(graph.shape(node.output)) == len(perm) else None


def on_axis(graph: Graph, node: Node, perm: Permutation) -> Rewriting | None:
    """Operators along one axis, which all inputs and the output have."""
    if len(graph.shape(node.output)) != len(perm):
        return None
    return Rewriting({**node.attrs, "axis": perm.index(node.attrs["axis"])})


def normalized(graph: Graph, node: Node, perm: Permutation) -> Rewriting | None:
    """LayerNormalization, where its axes become the last ones, in their order, or an image's channels."""
    shape, axes = graph.shape(node.output), node.attrs["axes"]
    if len(shape) != len(perm):
        return None
    moved = tuple(perm.index(axis) for axis in axes)
    is_last = moved == tuple(range(len(shape) - len(axes), len(shape)))
    is_channels = moved == (1,) and len(shape) == 4
    return Rewriting({**node.attrs, "axes": moved}, frozenset({0})) if is_last or is_channels else None


def with_ranges(graph: Graph, node: Node, perm: Permutation) -> Rewriting | None:
    """Slice: the ranges go with their axes, which stay ascending."""
    keys = ("axes", "starts", "ends", "steps")
    if len(graph.shape(node.output)) != len(perm):
        return None
    ranges = sorted((perm.index(axis), *rest) for axis, *rest in zip(*(node.attrs[key] for key in keys), strict=True))
    columns = zip(*ranges, strict=True) if ranges else ((),) * len(keys)
    return Rewriting(dict(zip(keys, map(tuple, columns), strict=True)))


def with_pads(graph: Graph, node: Node, perm: Permutation) -> Rewriting | None:
    """Pad: both sides of each axis."""
    pads, rank = node.attrs["pads"], len(perm)
    if len(pads) != 2 * rank:
        return None
    return Rewriting({**node.attrs, "pads": permuted(pads[:rank], perm) + permuted(pads[rank:], perm)})


def reduced(graph: Graph, node: Node, perm: Permutation) -> Rewriting | None:
    """Reductions; one that drops its axes works where those that are left keep their order."""
    axes, keeps = node.attrs["axes"], node.attrs["keepdims"]
    if len(graph.shape(node.inputs[0])) != len(perm) or not (keeps or _keeps_order(perm, axes)):
        return None
    moved = tuple(sorted(perm.index(axis) for axis in axes))
    return Rewriting({**node.attrs, "axes": moved}, moves_output=keeps)


def _keeps_order(perm: Permutation, dropped: Sequence[int]) -> bool:
    left = [axis for axis in perm if axis not in dropped]
    return left == sorted(left)


def transposed(graph: Graph, node: Node, perm: Permutation) -> Rewriting | None:
    """Transpose itself gives the same output with another permutation."""
    own = node.attrs["perm"]
    if len(own) != len(perm):
        return None
    return Rewriting({"perm": composed(inverse(perm), own)}, moves_output=False)


def writing_permuted(node: Node, perm: Permutation) -> Rewriting:
    """A Transpose that reads what it reads now, and writes its output permuted."""
    return Rewriting({"perm": composed(node.attrs["perm"], perm)}, frozenset())


def strided_reduction(graph: Graph, node: Node, perm: Permutation) -> Rewriting | None:
    """StridedReduction over whole axes of a dense tensor, such as ArgMax."""
    shape, attrs = graph.shape(node.inputs[0]), node.attrs
    if len(shape) != len(perm):
        return None
    for axes, keeps in _reductions(shape, attrs["shape"]):
        if attrs == reduction_form(shape, axes, keeps, attrs["function"], attrs["dtype"]):
            if not keeps and not _keeps_order(perm, axes):
                return None
            moved = tuple(sorted(perm.index(axis) for axis in axes))
            form = reduction_form(permuted(shape, perm), moved, keeps, attrs["function"], attrs["dtype"])
            return Rewriting(form, moves_output=keeps)
    return None


def _reductions(shape: Shape, out: Shape) -> list[tuple[tuple[int, ...], bool]]:
    """What may have been reduced, and whether the axes are kept: those that became 1, or the one that is missing."""
    if len(out) == len(shape):
        changed = tuple(axis for axis in range(len(shape)) if shape[axis] != out[axis])
        return [(changed, True), *(((axis,), True) for axis in range(len(shape)))]
    return [((axis,), False) for axis in range(len(shape))]


def embedded(graph: Graph, node: Node, perm: Permutation) -> Rewriting | None:
    """Embedding: place and step along each axis."""
    if len(graph.shape(node.output)) != len(perm):
        return None
    moved = {key: permuted(node.attrs[key], perm) for key in ("shape", "starts", "steps")}
    return Rewriting({**node.attrs, **moved})


def strided(graph: Graph, node: Node, perm: Permutation) -> Rewriting | None:
    """Strided, where each axis of the view runs along the same axis of the tensor: slices and repetitions."""
    shape, out, strides = graph.shape(node.inputs[0]), node.attrs["shape"], node.attrs["strides"]
    dense, offset = row_major_strides(shape), node.attrs["offset"]
    if not len(shape) == len(out) == len(perm):
        return None
    starts, steps = [], []
    for size, count, step, own in zip(shape, out, strides, dense, strict=True):
        start, offset = divmod(offset, own)
        starts.append(start)
        steps.append(step // own if count > 1 else 0)
        if (step % own and count > 1) or not 0 <= start + (count - 1) * steps[-1] < size or start >= size:
            return None
    moved = row_major_strides(permuted(shape, perm))
    places = zip(permuted(starts, perm), permuted(steps, perm), moved, strict=True)
    total = sum(start * own for (start, _, own) in places)
    views = [step * own for step, own in zip(permuted(steps, perm), moved, strict=True)]
    return Rewriting(view_form(permuted(out, perm), views, total))


def gathered(graph: Graph, node: Node, perm: Permutation) -> Rewriting | None:
    """IndexedRead that takes elements of one axis in the order of a list of indices; the list stays."""
    shape, chosen = graph.shape(node.inputs[0]), graph.shape(node.inputs[1])
    if len(shape) != len(perm) or len(chosen) != 1:
        return None
    for axis in range(len(shape)):
        if node.attrs == gather_form(shape, chosen, axis):
            return Rewriting(gather_form(permuted(shape, perm), chosen, perm.index(axis)), frozenset({0}))
    return None
