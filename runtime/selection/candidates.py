"""What can be chosen: for each node every place, algorithm and precision, with the launches that lowering it so emits.

They depend on nothing but the *state* of each input, which is how its producer left it; conversions are asked of the
state, once for each tensor and storage wanted.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Mapping

from runtime.graph import Graph, Node
from runtime.lowering.choice import NodeChoice
from runtime.lowering.launch import Conversion, Launch
from runtime.selection.noise import NoiseLimit
from runtime.types import ElementType, Storage


@dataclasses.dataclass(frozen=True)
class State:
    """How a tensor lies when its producer has run: all of it that the lowering of its readers depends on.

    `containers`: the tensors that it is a part of, the narrowest first, because they are joined in buffers. `origin`:
    whose memory it is (an input's, a constant's, or computed). `whole`: it is no view of other memory.
    """

    storage: Storage
    element: ElementType
    stride: int = 0
    containers: tuple[str, ...] = ()
    origin: str = "computed"
    whole: bool = True


CONSTANT = State(Storage.FLAT, ElementType.F32, origin="constant")


@dataclasses.dataclass(frozen=True)
class Reading:
    """A tensor read in one state: launches that only this state needs, and the conversions that it asks for."""

    tensor: str
    state: State
    launches: tuple[Launch, ...] = ()
    wants: tuple[Conversion, ...] = ()


@dataclasses.dataclass(frozen=True)
class NodeCandidate:
    """A way to run a node: its launches, what it leaves, and for each input the states that it serves.

    Every input has any one of its `readings`, whichever the others have. `scratch_bytes` is working memory of the node
    alone.
    """

    choice: NodeChoice
    launches: tuple[Launch, ...]
    output: State
    readings: tuple[tuple[Reading, ...], ...]
    scratch_bytes: int = 0


@dataclasses.dataclass(frozen=True)
class Candidates:
    """Everything that can be chosen for a graph; `outputs` are readings of the plan's outputs, a list for each.

    `noise`: what a choice has to keep.
    """

    graph: Graph
    nodes: Mapping[str, tuple[NodeCandidate, ...]]
    outputs: Mapping[str, tuple[Reading, ...]]
    planned: Mapping[str, tuple[str, int]]
    noise: tuple[NoiseLimit, ...] = ()

    def choices(self, node: Node) -> tuple[NodeChoice, ...]:
        """The distinct choices of a node."""
        return tuple(dict.fromkeys(candidate.choice for candidate in self.nodes[node.output]))

    def launches(self) -> Iterator[Launch]:
        """Every launch of every candidate, conversions included; most appear many times."""
        readings = list(self.outputs.values())
        for candidate in itertools.chain.from_iterable(self.nodes.values()):
            yield from candidate.launches
            readings += candidate.readings
        for reading in itertools.chain.from_iterable(readings):
            yield from reading.launches
            yield from (conversion.launch for conversion in reading.wants)
