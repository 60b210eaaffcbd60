"""What a given choice costs, without lowering it: node by node through the candidates, and quickly for one change."""

import dataclasses
import heapq
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping

from runtime.lowering.choice import NodeChoice
from runtime.lowering.launch import Launch
from runtime.selection.candidates import State
from runtime.selection.problem import ChoiceProblem, Conversion, Option, ReadingOption
from runtime.types import ElementType, Storage


@dataclasses.dataclass(frozen=True)
class PlanConversion:
    """A conversion of a plan: the tensor, the form that it lies in and that it is brought into.

    `storage`: None for an output of the plan.
    """

    tensor: str
    source: Storage
    storage: Storage | None
    milliseconds: float
    source_element: ElementType
    element: ElementType

    @property
    def is_cast(self) -> bool:
        """Returns whether the conversion changes the element type."""
        return self.source_element != self.element


@dataclasses.dataclass(frozen=True)
class _Resolved:
    """What a node does under a choice: its option, and the reading of each of its tensors."""

    option: Option | None
    readings: tuple[ReadingOption, ...]

    @property
    def milliseconds(self) -> float:
        if self.option is None:
            return 0.0
        pairs = zip(self.option.readings, self.readings, strict=True)
        return self.option.milliseconds + sum(chosen.milliseconds for options, chosen in pairs if len(options) > 1)

    @property
    def wants(self) -> list[Conversion]:
        return [conversion for reading in self.readings for conversion in reading.wants]


class Evaluation:
    """A choice, followed through a problem: the state of every tensor, and what everything costs."""

    def __init__(self, problem: ChoiceProblem, nodes: Mapping[str, NodeChoice]) -> None:
        self.problem, self.nodes = problem, nodes
        self._order = [*problem.nodes, *(f"output:{name}" for name in problem.outputs)]
        self._index = {name: at for at, name in enumerate(self._order)}
        self._readers = self._find_readers()
        self._joined = self._find_joined()
        self._states: dict[str, State] = {}
        self._resolved: dict[str, _Resolved] = {}
        for name in self._order:
            found = self._resolve(name, nodes, self._states)
            if found is None:
                raise ValueError(f"{name} cannot run as {nodes[name]}")
            self._resolved[name] = found
            if found.option:
                self._states[name] = found.option.candidate.output
        self._wanted = Counter(want for each in self._resolved.values() for want in set(each.wants))
        self.milliseconds = sum(each.milliseconds for each in self._resolved.values())
        self.milliseconds += sum(problem.conversions[want] for want in self._wanted)

    @property
    def conversions(self) -> tuple[PlanConversion, ...]:
        """The conversions, in the order in which they are asked for."""
        wanted = dict.fromkeys(want for name in self._order for want in self._resolved[name].wants)
        return tuple(
            PlanConversion(want[0], want[1].storage, want[2], self.problem.conversions[want], want[1].element, want[3])
            for want in wanted
        )

    def node_ms(self, name: str) -> float:
        """Cost of a node's own launches."""
        return self._resolved[name].milliseconds

    def launches(self, name: str) -> list[Launch]:
        """A node's own launches."""
        resolved = self._resolved[name]
        assert resolved.option
        found = list(resolved.option.candidate.launches)
        for candidates in resolved.option.candidate.readings:
            found += (launch for each in candidates if self._reads(each.tensor, each.state) for launch in each.launches)
        return found

    def _reads(self, tensor: str, state: State) -> bool:
        return self._states.get(tensor, state) == state

    @property
    def converting_launches(self) -> list[tuple[str, Launch]]:
        """The tensor and the launch of each conversion."""
        return [(want[0], self.problem.conversion_launches[want]) for want in self._wanted]

    def with_one(self, name: str, choice: NodeChoice) -> float | None:
        """The whole cost if one node ran otherwise and all others as they do; None where that cannot be."""
        nodes, states = {**self.nodes, name: choice}, dict(self._states)
        changed: dict[str, _Resolved] = {}
        waiting = [self._index[each] for each in {name, *self._joined[name]}]
        heapq.heapify(waiting)
        while waiting:
            node = self._order[heapq.heappop(waiting)]
            if node in changed:
                continue
            found = self._resolve(node, nodes, states)
            if found is None:
                return None
            changed[node] = found
            if found.option and states[node] != found.option.candidate.output:
                states[node] = found.option.candidate.output
                for reader in self._readers[node]:
                    heapq.heappush(waiting, self._index[reader])
        return self._cost_of(changed)

    def _cost_of(self, changed: Mapping[str, _Resolved]) -> float:
        total, wanted = self.milliseconds, Counter[Conversion]()
        for name, found in changed.items():
            total += found.milliseconds - self._resolved[name].milliseconds
            wanted.update(set(found.wants))
            wanted.subtract(set(self._resolved[name].wants))
        for want, more in wanted.items():
            before = self._wanted[want]
            total += self.problem.conversions[want] * (int(before + more > 0) - int(before > 0))
        return total

    def _resolve(self, name: str, nodes: Mapping[str, NodeChoice], states: Mapping[str, State]) -> _Resolved | None:
        if name not in nodes:
            reading = _matching(self.problem.outputs[name.removeprefix("output:")], states)
            return None if reading is None else _Resolved(None, (reading,))
        containers = self._chain(name, nodes)
        for option in self.problem.nodes[name]:
            candidate = option.candidate
            if candidate.choice == nodes[name] and candidate.output.containers == containers:
                readings = [_matching(options, states) for options in option.readings]
                found = [reading for reading in readings if reading is not None]
                if len(found) == len(readings):
                    return _Resolved(option, tuple(found))
        return None

    def _chain(self, tensor: str, nodes: Mapping[str, NodeChoice]) -> tuple[str, ...]:
        """The tensors that one is a part of under a choice: as long as they are joined in buffers."""
        planned = self.problem.candidates.planned
        if tensor not in planned:
            return ()
        container = planned[tensor][0]
        return (container, *self._chain(container, nodes)) if nodes[container].joins(nodes[tensor]) else ()

    def _find_readers(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = defaultdict(list)
        for name, options in self.problem.nodes.items():
            for tensor in dict.fromkeys(each[0].tensor for option in options for each in option.readings):
                found[tensor].append(name)
        for name in self.problem.outputs:
            found[name].append(f"output:{name}")
        return found

    def _find_joined(self) -> dict[str, list[str]]:
        """Concat -> the tensors that are parts of what it makes, those of parts included."""
        planned, found = self.problem.candidates.planned, defaultdict[str, list[str]](list)
        for tensor in planned:
            container = tensor
            while container in planned:
                container = planned[container][0]
                found[container].append(tensor)
        return found


def _matching(readings: Iterable[ReadingOption], states: Mapping[str, State]) -> ReadingOption | None:
    """The reading for the state that the tensor lies in; of inputs and constants there is only one."""
    return next((each for each in readings if states.get(each.tensor, each.state) == each.state), None)
