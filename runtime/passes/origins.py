"""The origin of each tensor: its shape, and the order of axes in which the model's author means it.

The order is known of the images that the deployment file gives a format for, and of what operators of fixed format
read and write. From these anchors it spreads, forwards and backwards, through transposable operators, which keep it,
and through Transposes, which change it. It ends where an operator regroups, mixes or drops axes; beyond that a tensor
has none (`ND`), and is as the source wrote it. What passes do to a graph changes no origin (`carried_origins`).
"""

import dataclasses
from collections import deque
from collections.abc import Iterator, Mapping

from runtime.formats.category import FormatCategory
from runtime.formats.permutation import inverse
from runtime.graph import Graph, Node, OrderedOrigin
from runtime.operators.table import format_category, rewritten
from runtime.types import Origin, OriginFormat

_RANK = 4
_TO_NHWC = (0, 2, 3, 1)


@dataclasses.dataclass(frozen=True)
class TracedOrigin:
    """What is known of a tensor: its origin, the operators that its meaning ends at, and whether sources disagree."""

    origin: Origin
    ends: tuple[str, ...] = ()
    disputed: bool = False


def trace_origins(graph: Graph, given: Mapping[str, OriginFormat]) -> dict[str, TracedOrigin]:
    """The origin of every tensor that is computed at run time; `given` are formats that are known beforehand.

    Where two sources disagree what is given is believed, then the operator that comes first.
    """
    spreading = _Spreading(graph)
    for name, own in given.items():
        spreading.enter(name, own)
    for node in graph.nodes:
        if _is_fixed(node):
            for name in (node.inputs[0], node.input(3), node.output):
                spreading.enter(name, OriginFormat.NCHW)
    spreading.run()
    return {name: spreading.traced(name) for name in graph.activations()}


def carried_origins(graph: Graph, traced: Mapping[str, TracedOrigin]) -> dict[str, OrderedOrigin]:
    """The origin of every tensor of a graph that passes have rewritten since its origins were traced.

    A tensor that the source has keeps its own, also where the graph has it in another order of axes; one that a pass
    made has that which its neighbours give it.
    """
    kept = dict(_kept(graph, traced))
    spread = trace_origins(graph, {name: one.order for name, one in kept.items()})
    return {name: OrderedOrigin(one.origin, one.origin.format) for name, one in spread.items()} | kept


def _kept(graph: Graph, traced: Mapping[str, TracedOrigin]) -> Iterator[tuple[str, OrderedOrigin]]:
    """The tensors that the source has, too."""
    for name in graph.activations():
        moved = graph.moved.get(name)
        source = traced.get(moved.tensor if moved else name)
        if source is None:
            continue
        origin = source.origin
        order = origin.format.permuted(moved.perm) if moved else origin.format
        shape = tuple(origin.shape[axis] for axis in moved.perm) if moved else origin.shape
        if shape == graph.shape(name) and not (moved and order == OriginFormat.ND):
            yield name, OrderedOrigin(origin, order)


def origin_lines(origins: Mapping[str, TracedOrigin]) -> Iterator[str]:
    """A line for each tensor: its format and shape, and where and why its meaning ends."""
    for name, traced in origins.items():
        shape = ",".join(map(str, traced.origin.shape))
        disputed = ", though what reads or writes it says otherwise" if traced.disputed else ""
        ends = "".join(f"; ends at {end}" for end in traced.ends)
        yield f"{name}: {traced.origin.format} [{shape}]{disputed}{ends}"


class _Spreading:
    """Tensors whose format is known, and those of them whose neighbours are not asked yet."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._images = {name for name in graph.activations() if len(graph.shape(name)) == _RANK}
        self._around: dict[str, list[Node]] = {name: [] for name in self._images}
        for node in graph.nodes:
            for name in {*node.inputs, node.output} & self._images:
                self._around[name].append(node)
        self._pending: deque[str] = deque()
        self._formats: dict[str, OriginFormat] = {}
        self._ends: dict[str, list[str]] = {}
        self._disputed: set[str] = set()

    def traced(self, tensor: str) -> TracedOrigin:
        """What came out about a tensor."""
        origin = Origin(self._formats.get(tensor, OriginFormat.ND), self._graph.shape(tensor))
        return TracedOrigin(origin, tuple(dict.fromkeys(self._ends.get(tensor, ()))), tensor in self._disputed)

    def enter(self, tensor: str, own: OriginFormat) -> None:
        """Notes a format; what is known already stays."""
        if tensor not in self._images or own == OriginFormat.ND:
            return
        if tensor not in self._formats:
            self._formats[tensor] = own
            self._pending.append(tensor)
        elif self._formats[tensor] != own:
            self._disputed.add(tensor)

    def run(self) -> None:
        """Spreads what is known until nothing new comes."""
        while self._pending:
            tensor = self._pending.popleft()
            for node in self._around[tensor]:
                self._cross(node, tensor)

    def _cross(self, node: Node, tensor: str) -> None:
        """Notes the formats that a node's other tensors have because of this one, or that the meaning ends here."""
        own = self._formats[tensor]
        others = self._others(node, tensor, own)
        for other, theirs in others.items():
            self.enter(other, theirs)
        if tensor in node.inputs and node.output not in others and not _is_fixed(node):
            self._ends.setdefault(tensor, []).append(f"{node.op} '{node.name}', which {_why(node)}")

    def _others(self, node: Node, tensor: str, own: OriginFormat) -> dict[str, OriginFormat]:
        """Tensors of a node that share a format with one of them, and what it is there."""
        if node.op == "Transpose":
            forwards = tensor == node.inputs[0]
            theirs = own.permuted(node.attrs["perm"] if forwards else inverse(node.attrs["perm"]))
            return {} if theirs == OriginFormat.ND else {node.output if forwards else node.inputs[0]: theirs}
        rewriting = rewritten(self._graph, node, _TO_NHWC)
        if rewriting is None:
            return {}
        tensors = [name for index, name in enumerate(node.inputs) if rewriting.reads_permuted(index)]
        tensors += [node.output] if rewriting.moves_output else []
        return dict.fromkeys((name for name in tensors if name in self._images), own) if tensor in tensors else {}


def _is_fixed(node: Node) -> bool:
    return format_category(node.op) == FormatCategory.FIXED


def _why(node: Node) -> str:
    """Why a format has no meaning behind a node."""
    if node.op == "Transpose":
        return f"puts the axes into the order {node.attrs['perm']}"
    if node.op == "Reshape":
        return "regroups the axes"
    return "is of source format" if format_category(node.op) == FormatCategory.SOURCE else "mixes or drops axes"
