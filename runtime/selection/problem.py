"""The choice over a whole graph as a 0/1 program of least cost.

Anderson and Gregg ("Optimal DNN Primitive Selection with Partitioned Boolean Quadratic Programming", 2018) give every
node a vector of costs and every edge a matrix of conversion costs. Here a tensor is converted once for each storage and
element type that anyone wants, however many read it so; so a conversion is a variable of these and the tensor's state,
not of an edge:

    minimise   sum cost(option) x(option) + sum cost(conversion) c(conversion)
    for each node                           sum of its options = 1
    for each tensor, state and reader       options of the reader for that state = options of the producer that leave it
    for each conversion and reader          options of the reader that want it <= c(conversion)
    for each limit of noise                 sum power(option) x(option) <= most

All sums over options are 0 or 1, so c is too without being asked, and only x are integers.
"""

import dataclasses
from collections.abc import Callable, Iterable, Mapping

from runtime.lowering.launch import Launch
from runtime.selection.candidates import Candidates, NodeCandidate, Reading, State
from runtime.selection.costs import LaunchCosts, cost_key, total_ms
from runtime.types import ElementType, Storage

Conversion = tuple[str, State, Storage | None, ElementType]  # a tensor in a state, and the form wanted


@dataclasses.dataclass(frozen=True)
class ReadingOption:
    """One of a candidate's readings of a tensor: the state that it is for, its own cost and its conversions."""

    tensor: str
    state: State
    milliseconds: float
    wants: tuple[Conversion, ...]


@dataclasses.dataclass(frozen=True)
class Option:
    """A candidate with its costs in ms, conversions left out."""

    candidate: NodeCandidate
    milliseconds: float
    readings: tuple[tuple[ReadingOption, ...], ...]

    @property
    def signature(self) -> object:
        """What the rest of the graph sees of it: of two that look the same, the dearer one is never needed."""
        readings = tuple(tuple((each.state, each.wants) for each in options) for options in self.readings)
        return self.candidate.output, readings


@dataclasses.dataclass(frozen=True)
class ChoiceProblem:
    """Options of each node, readings of each output of the plan, and what conversions cost."""

    candidates: Candidates
    nodes: Mapping[str, tuple[Option, ...]]
    outputs: Mapping[str, tuple[ReadingOption, ...]]
    conversions: Mapping[Conversion, float]
    conversion_launches: Mapping[Conversion, Launch]


class _Prices:
    """Costs of launches, asked once for each key; collects the conversions that readings want."""

    def __init__(self, costs: LaunchCosts) -> None:
        self._costs = costs
        self._known: dict[str, float] = {}
        self._of: dict[int, float] = {}  # by identity: equal nodes share their launches
        self.conversions: dict[Conversion, float] = {}
        self.launches: dict[Conversion, Launch] = {}

    def total(self, launches: Iterable[Launch]) -> float:
        return sum(self._one(launch) for launch in launches)

    def _one(self, launch: Launch) -> float:
        if id(launch) not in self._of:
            self._of[id(launch)] = self._priced(launch)
        return self._of[id(launch)]

    def _priced(self, launch: Launch) -> float:
        key = cost_key(launch)
        if key not in self._known:
            self._known[key] = total_ms([launch], self._costs)
        return self._known[key]

    def reading(self, reading: Reading) -> ReadingOption:
        wants: list[Conversion] = []
        for conversion in reading.wants:
            wants.append((reading.tensor, reading.state, conversion.storage, conversion.element))
            self.conversions[wants[-1]] = self._one(conversion.launch)
            self.launches[wants[-1]] = conversion.launch
        return ReadingOption(reading.tensor, reading.state, self.total(reading.launches), tuple(dict.fromkeys(wants)))


def make_problem(candidates: Candidates, costs: LaunchCosts) -> ChoiceProblem:
    """Prices every candidate, asking for each launch once."""
    prices = _Prices(costs)
    nodes = {name: tuple(_options(found, prices)) for name, found in candidates.nodes.items()}
    outputs = {name: tuple(map(prices.reading, readings)) for name, readings in candidates.outputs.items()}
    return ChoiceProblem(candidates, nodes, outputs, prices.conversions, prices.launches)


def _options(found: Iterable[NodeCandidate], prices: _Prices) -> Iterable[Option]:
    for candidate in found:
        readings = tuple(tuple(map(prices.reading, alternatives)) for alternatives in candidate.readings)
        alone = sum(options[0].milliseconds for options in readings if len(options) == 1)
        yield Option(candidate, prices.total(candidate.launches) + alone, readings)


def without_dominated(options: Iterable[Option], needs: Callable[[NodeCandidate], object]) -> tuple[Option, ...]:
    """Keeps the cheapest of all options that have one signature and need the same of every limit."""
    kept: dict[object, Option] = {}
    for option in options:
        seen = (option.signature, needs(option.candidate))
        best = kept.get(seen)
        if best is None or option.milliseconds < best.milliseconds:
            kept[seen] = option
    return tuple(kept.values())
