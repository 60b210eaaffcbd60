"""Which launches have to be measured until the choice of least cost rests on measured ones only.

With an optimistic time for whatever is not measured yet, the least total is a lower bound of the truth. So once a
choice of that least total uses measured launches only, no other can be better, whatever the rest would cost
(the argument of A*, Hart, Nilsson and Raphael 1968). Until then the launches that it lacks are the ones to measure.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from runtime.lowering.choice import NodeChoice
from runtime.lowering.launch import Launch
from runtime.selection.candidates import Candidates
from runtime.selection.costs import LaunchCosts, MeasuredCosts, cost_key
from runtime.selection.evaluation import Evaluation
from runtime.selection.memory import CHEAPEST, MemoryGoal, solutions
from runtime.selection.problem import ChoiceProblem, make_problem
from runtime.selection.solve import Solution


@dataclasses.dataclass(frozen=True)
class NeededLaunch:
    """A launch to measure: the node's output and choice that emit it; for a conversion its tensor, and no choice."""

    launch: Launch
    node: str
    choice: NodeChoice | None

    @property
    def key(self) -> str:
        """The key under which the launch's time is kept."""
        return cost_key(self.launch)


@dataclasses.dataclass(frozen=True)
class BoundedChoice:
    """The choice of least optimistic cost, in ms, and what it lacks: launches to measure, each once."""

    milliseconds: float
    needed: list[NeededLaunch]


def bounded_choice(
    candidates: Candidates, measured: Mapping[str, float], bound: LaunchCosts, memory: MemoryGoal = CHEAPEST
) -> BoundedChoice:
    """The choice that is cheapest if what is not measured takes no longer than its bound.

    Where memory is a second objective both the cheapest choice and the one that is wanted have to be measured: how much
    time may be given for memory follows from the first.
    """
    problem = make_problem(candidates, MeasuredCosts(measured, bound))
    found = solutions(problem, memory)
    used = [each for solution in found for each in _used(problem, solution)]
    needed = list({each.key: each for each in reversed(used) if each.key not in measured}.values())[::-1]
    return BoundedChoice(found[-1].milliseconds, needed)


def _used(problem: ChoiceProblem, solution: Solution) -> list[NeededLaunch]:
    """The launches of a solution."""
    chosen = {name: candidate.choice for name, candidate in solution.nodes.items()}
    evaluation = Evaluation(problem, chosen)
    used = [NeededLaunch(launch, name, chosen[name]) for name in chosen for launch in evaluation.launches(name)]
    return used + [NeededLaunch(launch, tensor, None) for tensor, launch in evaluation.converting_launches]
