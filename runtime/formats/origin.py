"""The origin format of each tensor: the order of axes in which the model's author means it.

It is known of the images that the deployment file gives a format for, and of what operators of fixed format read and
write. From these anchors it spreads, forwards and backwards, through transposable operators, which keep it, and through
Transposes, which change it. It ends where an operator regroups, mixes or drops axes; beyond that a tensor has none
(`ND`), and is as the source wrote it.
"""

from __future__ import annotations

import dataclasses
import enum
from collections import deque
from collections.abc import Iterator, Mapping

from runtime.formats.categories import FormatCategory, format_category, rewritten
from runtime.formats.permutation import inverse
from runtime.graph import Graph, Node

_RANK = 4
_TO_NHWC = (0, 2, 3, 1)


class OriginFormat(enum.StrEnum):
    """The order of an image's axes; `ND` is none of these."""

    NCHW = "NCHW"
    NHWC = "NHWC"
    ND = "ND"


@dataclasses.dataclass
class Origin:
    """What is known of a tensor: its format, the operators that its meaning ends at, and whether sources disagree."""

    format: OriginFormat = OriginFormat.ND
    ends: list[str] = dataclasses.field(default_factory=list)
    disputed: bool = False


def origin_formats(graph: Graph, given: Mapping[str, OriginFormat]) -> dict[str, Origin]:
    """The origin of every tensor that is computed at run time; `given` are the formats of the deployment file.

    Where two sources disagree the deployment file is believed, then the operator that comes first.
    """
    spreading = _Spreading(graph)
    for name, own in given.items():
        spreading.enter(name, own)
    for node in graph.nodes:
        if format_category(node.op) == FormatCategory.FIXED:
            for name in (node.inputs[0], node.input(3), node.output):
                spreading.enter(name, OriginFormat.NCHW)
    spreading.run()
    return spreading.origins


def origin_lines(origins: Mapping[str, Origin]) -> Iterator[str]:
    """A line for each tensor: its format, and where and why its meaning ends."""
    for name, origin in origins.items():
        disputed = ", though what reads or writes it says otherwise" if origin.disputed else ""
        ends = "".join(f"; ends at {end}" for end in dict.fromkeys(origin.ends))
        yield f"{name}: {origin.format}{disputed}{ends}"


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
        self.origins = {name: Origin() for name in graph.activations()}

    def enter(self, tensor: str, own: OriginFormat) -> None:
        """Notes a format; what is known already stays."""
        if tensor not in self._images or own == OriginFormat.ND:
            return
        origin = self.origins[tensor]
        if origin.format == OriginFormat.ND:
            origin.format = own
            self._pending.append(tensor)
        origin.disputed = origin.disputed or origin.format != own

    def run(self) -> None:
        """Spreads what is known until nothing new comes."""
        while self._pending:
            tensor = self._pending.popleft()
            for node in self._around[tensor]:
                self._cross(node, tensor)

    def _cross(self, node: Node, tensor: str) -> None:
        """Notes the formats that a node's other tensors have because of this one, or that the meaning ends here."""
        own = self.origins[tensor].format
        others = self._others(node, tensor, own)
        for other, theirs in others.items():
            self.enter(other, theirs)
        if tensor in node.inputs and node.output not in others and not _is_fixed(node):
            self.origins[tensor].ends.append(f"{node.op} '{node.name}', which {_why(node)}")

    def _others(self, node: Node, tensor: str, own: OriginFormat) -> dict[str, OriginFormat]:
        """Tensors of a node that share a format with one of them, and what it is there."""
        if node.op == "Transpose":
            forwards = tensor == node.inputs[0]
            theirs = _after(own, node.attrs["perm"] if forwards else inverse(node.attrs["perm"]))
            return {} if theirs == OriginFormat.ND else {node.output if forwards else node.inputs[0]: theirs}
        rewriting = rewritten(self._graph, node, _TO_NHWC)
        if rewriting is None:
            return {}
        tensors = [name for index, name in enumerate(node.inputs) if rewriting.reads_permuted(index)]
        tensors += [node.output] if rewriting.moves_output else []
        return dict.fromkeys((name for name in tensors if name in self._images), own) if tensor in tensors else {}


def _after(own: OriginFormat, perm: tuple[int, ...]) -> OriginFormat:
    """The format behind a Transpose; ND for an order that has no name."""
    letters = "".join(own[axis] for axis in perm)
    return OriginFormat(letters) if letters in OriginFormat.__members__ else OriginFormat.ND


def _is_fixed(node: Node) -> bool:
    return format_category(node.op) == FormatCategory.FIXED


def _why(node: Node) -> str:
    """Why a format has no meaning behind a node."""
    if node.op == "Transpose":
        return f"puts the axes into the order {node.attrs['perm']}"
    if node.op == "Reshape":
        return "regroups the axes"
    return "is of source format" if format_category(node.op) == FormatCategory.SOURCE else "mixes or drops axes"
