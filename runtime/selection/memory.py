"""Activation memory of a choice: the most that lives at any node, as linear constraints of the 0/1 program.

A tensor lives from its producer to its last reader, views of it included; a conversion from the first node that may
ask for it to the last; a Concat in buffers from the first of its parts on. Where a choice decides, the longer life
counts, so the modelled peak is never below the bytes that live at once in the plan. Arenas may need more than that,
where their parts do not fit together.
"""

import dataclasses
import math
from collections import defaultdict
from collections.abc import Iterator

from runtime.errors import ModelError
from runtime.lowering.value import Value
from runtime.selection.candidates import Candidates, State
from runtime.selection.problem import ChoiceProblem, Conversion
from runtime.selection.solve import OUTPUT, TIME_LIMIT_S, ChoiceProgram, Solution, solution, solve
from runtime.types import ELEMENT_TYPES, ElementType, Storage

INFEASIBLE = 2  # of scipy.optimize.milp's statuses
_ROUNDING = 1e-3  # bytes
Term = tuple[int, float]  # a variable, and its bytes where it is 1


@dataclasses.dataclass(frozen=True)
class Life:
    """The first and the last node, by position, at which something lives."""

    first: int
    last: int


class Lives:
    """How long the tensors of a graph live; position -1 is before all nodes, the number of nodes behind them."""

    def __init__(self, candidates: Candidates) -> None:
        self._candidates = candidates
        self.position = {name: at for at, name in enumerate(candidates.nodes)}
        self.end = len(self.position)
        self._readers: dict[str, list[str]] = defaultdict(list)
        for node in candidates.graph.nodes:
            for name in dict.fromkeys(filter(None, node.inputs)):
                self._readers[name].append(node.output)
        self._parts: dict[str, list[str]] = defaultdict(list)
        for part, (container, _) in candidates.planned.items():
            self._parts[container].append(part)
        self._last: dict[str, int] = {}
        for tensor in reversed(list(candidates.graph.activations())):
            self._last[tensor] = self._last_use(tensor)

    def of(self, tensor: str) -> Life:
        """Life of a tensor's own memory, parts and views included."""
        return Life(self._first(tensor), self._last_part(tensor))

    def of_conversion(self, tensor: str, readers: list[str]) -> Life:
        """Life of a tensor in another storage that these readers may ask for."""
        first = min(self.end if name.startswith(OUTPUT) else self.position[name] for name in readers)
        return Life(first, max(first, self._last_use(tensor)))

    def _first(self, tensor: str) -> int:
        own = self.position.get(tensor, -1)
        return min([own, *(self._first(part) for part in self._parts.get(tensor, ()))])

    def _last_part(self, tensor: str) -> int:
        return max([self._last.get(tensor, 0), *(self._last_part(part) for part in self._parts.get(tensor, ()))])

    def _last_use(self, tensor: str) -> int:
        graph = self._candidates.graph
        if tensor in graph.outputs or tensor in graph.inputs:
            return self.end
        uses = [self.position.get(tensor, -1)]
        for reader in self._readers.get(tensor, ()):
            uses.append(self.position[reader])
            if self._is_view(reader):
                uses.append(self._last[reader])
        return max(uses)

    def _is_view(self, name: str) -> bool:
        """Returns whether a node's output may be a view of its input, with no memory of its own."""
        outputs = (candidate.output for candidate in self._candidates.nodes[name])
        return any(not state.whole and not state.containers for state in outputs)


def memory_terms(program: ChoiceProgram) -> Iterator[list[Term]]:
    """For each node, and for the end of the plan, the bytes that live then."""
    candidates = program.problem.candidates
    lives = Lives(candidates)
    terms: list[list[Term]] = [[] for _ in range(lives.end + 1)]
    whole = program.variable()
    program.row([(whole, 1)], 1, 1)
    for name in candidates.graph.inputs:
        _live(terms, lives.of(name), whole, _bytes(candidates, name, Storage.FLAT, _outer_element(candidates, name)))
    for name, options in program.options.items():
        for variable, option in options:
            terms[lives.position[name]].append((variable, option.candidate.scratch_bytes))
            _live(terms, lives.of(name), variable, _home_bytes(candidates, name, option.candidate.output))
    for conversion, variable in program.converting.items():
        life = lives.of_conversion(conversion[0], list(program.wanting[conversion]))
        _live(terms, life, variable, _conversion_bytes(candidates, conversion))
    yield from terms


def _home_bytes(candidates: Candidates, tensor: str, state: State) -> int:
    """Bytes of a tensor where its producer leaves it, 0 for a view or a part of another one.

    What a Concat joins is a part only where it lies as the wide tensor does, not as an image or row-major.
    """
    if not state.whole or (state.containers and state.storage == Storage.NHWC):
        return 0
    return _bytes(candidates, tensor, state.storage, state.element)


def _conversion_bytes(candidates: Candidates, conversion: Conversion) -> int:
    tensor, state, storage, element = conversion
    if storage == Storage.NHWC and state.containers and state.storage == Storage.IMAGE and element == state.element:
        return 0  # straight into the wide tensor
    return _bytes(candidates, tensor, Storage.FLAT if storage is None else storage, element)


def _outer_element(candidates: Candidates, tensor: str) -> ElementType:
    return ELEMENT_TYPES[candidates.graph.tensors[tensor].dtype.name]


def _bytes(candidates: Candidates, tensor: str, storage: Storage, element: ElementType) -> int:
    return Value(tensor, candidates.graph.shape(tensor), storage, element).size_bytes


def _live(terms: list[list[Term]], life: Life, variable: int, size: int) -> None:
    if size:
        for position in range(max(life.first, 0), life.last + 1):
            terms[position].append((variable, float(size)))


@dataclasses.dataclass(frozen=True)
class MemoryGoal:
    """How much memory activations may take, and how much time saving memory may cost.

    `limit_bytes`: at most so many at any node; None: any. `slowdown`: of all choices that take at most so much more
    time than the cheapest, as a share of it, the one that needs least memory is wanted; None: the cheapest itself.
    """

    limit_bytes: int | None = None
    slowdown: float | None = None


CHEAPEST = MemoryGoal()


def solutions(problem: ChoiceProblem, goal: MemoryGoal = CHEAPEST) -> list[Solution]:
    """The cheapest choice within the limit, then, where memory is a second objective, the one of least memory among
    those that are not much dearer (the cheapest of these again); the last one is the answer.

    Raises:
        ModelError: no choice keeps the limit; says how many bytes the least takes.
    """
    found = [solve(problem) if goal.limit_bytes is None else solve_within(problem, goal.limit_bytes)]
    if goal.slowdown is not None:
        most_ms = found[0].milliseconds * (1.0 + goal.slowdown)
        found.append(solve_within(problem, least_memory(problem, most_ms)))
    return found


def solve_within(problem: ChoiceProblem, limit: int, time_limit_s: float = TIME_LIMIT_S) -> Solution:
    """The choice of least cost whose activations take at most `limit` bytes at any node.

    Raises:
        ModelError: there is none; says how many bytes the least takes.
    """
    program = ChoiceProgram(problem, memory=True)
    for terms in memory_terms(program):
        program.row(terms, -math.inf, limit)
    result = program.solve(time_limit_s)
    if result.status == INFEASIBLE:
        name = problem.candidates.graph.name
        least = least_memory(problem)
        raise ModelError(f"model '{name}': no choice keeps activations within {limit} bytes; the least takes {least}")
    return solution(program, result)


def least_memory(problem: ChoiceProblem, most_ms: float = math.inf, time_limit_s: float = TIME_LIMIT_S) -> int:
    """The least peak of activations that any choice has that costs at most so much, in bytes."""
    program = ChoiceProgram(problem, memory=True)
    everything = list(memory_terms(program))
    if math.isfinite(most_ms):
        program.row(list(enumerate(program.costs)), -math.inf, most_ms)
    program.costs = [0.0] * len(program.costs)
    peak = program.variable(1.0, upper=math.inf)
    for terms in everything:
        program.row([*terms, (peak, -1.0)], -math.inf, 0)
    return math.ceil(float(program.solve(time_limit_s).fun) - _ROUNDING)
