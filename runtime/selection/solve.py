"""Solves the 0/1 program of a choice with HiGHS, to optimality or to a stated gap."""

from __future__ import annotations

import dataclasses
import functools
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from runtime.errors import ModelError
from runtime.selection.candidates import NodeCandidate, State
from runtime.selection.noise import NoiseLimit
from runtime.selection.problem import ChoiceProblem, Conversion, Option, ReadingOption, without_dominated

if TYPE_CHECKING:
    from scipy import optimize

OUTPUT = "output:"  # before the name of a plan's output, as a reader of its tensor
TIME_LIMIT_S = 60.0
_ROUNDING = 1e-9  # a gap that floating point alone can make


@dataclasses.dataclass(frozen=True)
class Solution:
    """The candidate of each node at the least cost found; no choice costs less than `bound` ms."""

    nodes: Mapping[str, NodeCandidate]
    milliseconds: float
    bound: float

    @property
    def gap(self) -> float:
        """How much less the optimum may cost at most, relative to this cost; 0 where it is proven."""
        gap = (self.milliseconds - self.bound) / self.milliseconds if self.milliseconds else 0.0
        return gap if gap > _ROUNDING else 0.0


class Program:
    """A mixed-integer program under construction: variables with bounds 0 to `upper`, and sparse rows."""

    def __init__(self) -> None:
        self.costs: list[float] = []
        self.integral: list[int] = []
        self.upper: list[float] = []
        self._entries: tuple[list[int], list[int], list[float]] = ([], [], [])
        self._bounds: list[tuple[float, float]] = []

    def variable(self, cost: float = 0.0, integral: bool = False, upper: float = 1.0) -> int:
        """Adds a variable; returns its index."""
        self.costs.append(cost)
        self.integral.append(int(integral))
        self.upper.append(upper)
        return len(self.costs) - 1

    def row(self, terms: Sequence[tuple[int, float]], low: float, high: float) -> None:
        """Adds low <= sum of factor * variable <= high."""
        rows, columns, factors = self._entries
        for variable, factor in terms:
            rows.append(len(self._bounds))
            columns.append(variable)
            factors.append(factor)
        self._bounds.append((low, high))

    def solve(self, time_limit_s: float) -> optimize.OptimizeResult:
        """HiGHS' answer; every relative gap but 0 is an early end."""
        from scipy import optimize, sparse  # take long to import, for most commands in vain

        rows, columns, factors = self._entries
        shape = (len(self._bounds), len(self.costs))
        matrix = sparse.csr_array((factors, (rows, columns)), shape=shape)
        low, high = zip(*self._bounds, strict=True)
        return optimize.milp(
            np.array(self.costs),
            integrality=np.array(self.integral),
            bounds=optimize.Bounds(0, np.array(self.upper)),
            constraints=optimize.LinearConstraint(matrix, low, high),
            options={"mip_rel_gap": 0.0, "time_limit": time_limit_s},
        )


class ChoiceProgram(Program):
    """The program of a problem: one variable for each option of each node."""

    def __init__(self, problem: ChoiceProblem, memory: bool = False) -> None:
        super().__init__()
        self.problem = problem
        self.options: dict[str, list[tuple[int, Option]]] = {}
        # (tensor, state) -> reader -> its variables; the same for conversions.
        self.reading: dict[str, dict[str, dict[State, list[int]]]] = defaultdict(dict)
        self.wanting: dict[Conversion, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
        self.converting: dict[Conversion, int] = {}
        for name, options in problem.nodes.items():
            self._add_node(name, without_dominated(options, functools.partial(self._needs, name, memory)))
        for name, readings in problem.outputs.items():
            whole = self.variable()
            self.row([(whole, 1)], 1, 1)
            self._add_readings(f"{OUTPUT}{name}", readings, whole)
        self._link()
        self._convert()
        for limit in problem.candidates.noise:
            self._limit_noise(limit)

    def _needs(self, name: str, memory: bool, candidate: NodeCandidate) -> object:
        """What an option needs of what is limited: memory, where that counts, and noise."""
        noise = tuple(limit.power(name, candidate.choice) for limit in self.problem.candidates.noise)
        return candidate.scratch_bytes if memory else 0, noise

    def _add_node(self, name: str, options: Sequence[Option]) -> None:
        self.options[name] = [(self.variable(option.milliseconds, True), option) for option in options]
        self.row([(variable, 1) for variable, _ in self.options[name]], 1, 1)
        for variable, option in self.options[name]:
            for readings in option.readings:
                self._add_readings(name, readings, variable)

    def _add_readings(self, reader: str, readings: Sequence[ReadingOption], variable: int) -> None:
        """Variables of a reader's alternatives for one tensor; the only one is the option itself."""
        if len(readings) == 1:
            self._add_reading(reader, readings[0], variable)
            return
        parts = [self.variable(reading.milliseconds) for reading in readings]
        self.row([(variable, -1), *((part, 1) for part in parts)], 0, 0)
        for part, reading in zip(parts, readings, strict=True):
            self._add_reading(reader, reading, part)

    def _add_reading(self, reader: str, reading: ReadingOption, variable: int) -> None:
        states = self.reading[reading.tensor].setdefault(reader, {})
        states.setdefault(reading.state, []).append(variable)
        for conversion in reading.wants:
            self.wanting[conversion][reader].append(variable)

    def _link(self) -> None:
        """Every reader reads a tensor in the state that its producer leaves it in."""
        for tensor, by_reader in self.reading.items():
            produced: dict[State, list[int]] = defaultdict(list)
            for variable, option in self.options.get(tensor, ()):
                produced[option.candidate.output].append(variable)
            if len(produced) < 2:
                continue
            for states in by_reader.values():
                for state, variables in produced.items():
                    read = [(variable, 1.0) for variable in states.get(state, ())]
                    self.row([*read, *((variable, -1.0) for variable in variables)], 0, 0)

    def _convert(self) -> None:
        """A conversion is paid once, however many read its result."""
        for conversion, by_reader in self.wanting.items():
            cost = self.problem.conversions[conversion]
            self.converting[conversion] = self.variable(cost)
            for variables in by_reader.values():
                self.row([(self.converting[conversion], 1), *((variable, -1) for variable in variables)], 0, np.inf)

    def _limit_noise(self, limit: NoiseLimit) -> None:
        """Noise adds up; what alone brings too much is excluded, so that no large factor spoils the row."""
        terms: list[tuple[int, float]] = []
        for name, options in self.options.items():
            for variable, option in options:
                share = limit.share(name, option.candidate.choice)
                if share > 1.0:
                    self.upper[variable] = 0.0
                elif share > 0.0:
                    terms.append((variable, share))
        self.row(terms, -np.inf, 1.0)

    def chosen(self, values: Sequence[float]) -> dict[str, NodeCandidate]:
        """The candidate of each node in a solution."""
        return {
            name: max(options, key=lambda entry: values[entry[0]])[1].candidate
            for name, options in self.options.items()
        }


def solve(problem: ChoiceProblem, time_limit_s: float = TIME_LIMIT_S) -> Solution:
    """The choice of least cost.

    Raises:
        ModelError: no solution was found within the time.
    """
    program = ChoiceProgram(problem)
    return solution(program, program.solve(time_limit_s))


def solution(program: ChoiceProgram, result: optimize.OptimizeResult) -> Solution:
    """What a solved program chose; ModelError where it found nothing."""
    if result.x is None:
        raise ModelError(f"model '{program.problem.candidates.graph.name}': no choice was found: {result.message}")
    return Solution(program.chosen(result.x), float(result.fun), float(result.mip_dual_bound))
