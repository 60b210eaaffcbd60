"""The same ways to run a node in fewer candidates.

Most operators do with one input what they do whatever state the others are in. Candidates that differ in the state of
one input alone, and in the conversions that this asks for, become one candidate with alternatives for that input: of
`a * b` candidates `a + b` alternatives are left. Nothing is lost, and the relaxed 0/1 program has the same bound: where
a candidate is chosen by the share y, and its alternatives by shares that sum to y for each input, the product of these
over y is a share for each of the candidates that there were.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable, Iterable

from runtime.lowering.launch import Launch
from runtime.selection.candidates import NodeCandidate, Reading
from runtime.selection.costs import cost_key


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
