"""What can be chosen: for each node every place, algorithm and precision, with the launches that lowering it so emits.

They depend on nothing but the *state* of each input, which is how its producer left it; conversions are asked of the
state, once for each tensor and storage wanted.
"""

import dataclasses
import itertools
from collections.abc import Hashable, Iterable, Iterator, Mapping

from runtime.graph import Graph, Node
from runtime.lowering.choice import NodeChoice
from runtime.lowering.launch import Conversion, Launch
from runtime.selection.costs import cost_key
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


# The same ways to run a node in fewer candidates.
#
# Most operators do with one input what they do whatever state the others are in. Candidates that differ in the state
# of one input alone, and in the conversions that this asks for, become one candidate with alternatives for that
# input: of `a * b` candidates `a + b` alternatives are left. Nothing is lost, and the relaxed 0/1 program has the
# same bound: where a candidate is chosen by the share y, and its alternatives by shares that sum to y for each input,
# the product of these over y is a share for each of the candidates that there were.
class Merger:
    """Merges candidates; remembers the keys of launches, which many candidates share."""

    def __init__(self) -> None:
        self._keys: dict[int, tuple[Launch, str]] = {}  # with the launch, so that no other gets its identity

    def merged(self, candidates: Iterable[NodeCandidate]) -> tuple[NodeCandidate, ...]:
        """The candidates with as many alternatives as possible, input by input."""
        found = [(self._seen(each), each) for each in candidates]
        for position in range(max((len(each.readings) for _, each in found), default=0)):
            found = self._merged_at(position, found)
        return tuple(each for _, each in found)

    def _merged_at(
        self, position: int, found: list[tuple[Hashable, NodeCandidate]]
    ) -> list[tuple[Hashable, NodeCandidate]]:
        alike: dict[Hashable, tuple[Hashable, NodeCandidate]] = {}
        for seen, each in found:
            readings = [tuple(map(self._seen_reading, alternatives)) for alternatives in each.readings]
            key = (seen, *readings[:position], *readings[position + 1 :])
            alike[key] = (seen, _joined(alike[key][1], each, position) if key in alike else each)
        return list(alike.values())

    def _seen(self, candidate: NodeCandidate) -> Hashable:
        """Returns all members of a candidate except its readings, to compare it with others."""
        launches = tuple(map(self._key, candidate.launches))
        return candidate.choice, launches, candidate.output, candidate.scratch_bytes

    def _seen_reading(self, reading: Reading) -> Hashable:
        wants = tuple((each.storage, each.element, self._key(each.launch)) for each in reading.wants)
        return reading.tensor, reading.state, tuple(map(self._key, reading.launches)), wants

    def _key(self, launch: Launch) -> str:
        if id(launch) not in self._keys:
            self._keys[id(launch)] = (launch, cost_key(launch))
        return self._keys[id(launch)][1]


def _joined(first: NodeCandidate, second: NodeCandidate, position: int) -> NodeCandidate:
    """One candidate with the alternatives of both for an input."""
    readings = list(first.readings)
    readings[position] = (*readings[position], *second.readings[position])
    return dataclasses.replace(first, readings=tuple(readings))
