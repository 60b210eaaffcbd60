"""The precisions of a plan, where several are allowed: one for all of its operators, or one chosen for each of them.

The cheapest choice is found exactly for each precision alone and for all of them together, where a tensor that is
written in float and read in half, or the other way round, costs a conversion. The latter is never dearer than the
former; it counts where it is cheaper. What keeps no memory limit is left out.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from runtime.errors import ModelError
from runtime.graph import Graph
from runtime.lowering.choice import GraphChoice, NodeChoice
from runtime.lowering.launch import Launch
from runtime.lowering.options import Options
from runtime.selection.candidates import Candidates
from runtime.selection.costs import LaunchCosts, MeasuredCosts, cost_key
from runtime.selection.evaluation import Evaluation
from runtime.selection.listing import find_candidates
from runtime.selection.memory import CHEAPEST, MemoryGoal, solutions
from runtime.selection.problem import ChoiceProblem, make_problem
from runtime.selection.selection import GraphSelection, select_among
from runtime.selection.solve import Solution
from runtime.target import Target
from runtime.types import Precisions

Found = TypeVar("Found")
LEAST_GAIN = 1e-6  # relative: mixed plans that promise less are no better than those of one precision


def allowed_precisions(precisions: Precisions) -> list[Precisions]:
    """What plans may have where a file allows several: each alone, in the order given, at last all of them."""
    alone: list[Precisions] = [(each,) for each in precisions]
    return [*alone, tuple(sorted(precisions))] if len(alone) > 1 else alone


def candidates_in_each(
    graph: Graph, target: Target, allowed: Iterable[Precisions], options: Options
) -> dict[Precisions, Candidates]:
    """The candidates of a graph on a target whose plan may have each of these precisions in turn."""
    return {each: _candidates(graph, target, each, options) for each in allowed}


def _candidates(graph: Graph, target: Target, precisions: Precisions, options: Options) -> Candidates:
    target = dataclasses.replace(target, precision=max(precisions))
    return find_candidates(graph, target, options, precisions if len(precisions) > 1 else ())


def chosen_target(target: Target, precisions: Precisions, choice: GraphChoice) -> Target:
    """What a choice among these precisions is lowered to: the target in the least exact one that a node has."""
    return dataclasses.replace(target, precision=max(choice.precisions or precisions))


def select_in_each(
    candidates: Mapping[Precisions, Candidates], costs: LaunchCosts, memory: MemoryGoal = CHEAPEST
) -> dict[Precisions, GraphSelection]:
    """The cheapest choice for each, the cheapest of all first; of equals the one that is given first.

    Raises ModelError where no choice keeps the memory limit for any.
    """
    found, problems = _in_each(candidates, lambda each: select_among(each, costs, memory))
    if not found:
        raise problems[0]
    return dict(sorted(found.items(), key=lambda entry: _weighed(entry[0], entry[1].milliseconds)))


def needed_in_cheapest(
    candidates: Mapping[Precisions, Candidates],
    measured: Mapping[str, float],
    bound: LaunchCosts,
    memory: MemoryGoal = CHEAPEST,
) -> tuple[Precisions, BoundedChoice]:
    """For which precisions the cheapest of all choices may be, and that choice with the launches to measure for it.

    First come plans of one precision, until it is known which of them is the cheapest: what is measured for these
    counts for the mixed ones too, and if the time ends, then with an answer. None is left where the cheapest choice of
    all rests on measured launches only: the bounds of all others are not less. Raises ModelError as `select_in_each`
    does.
    """
    alone: dict[Precisions, Candidates] = {
        precisions: each for precisions, each in candidates.items() if len(precisions) == 1
    }
    mixed = {precisions: each for precisions, each in candidates.items() if precisions not in alone}
    found, problems = _in_each(alone, lambda each: bounded_choice(each, measured, bound, memory))
    if not found or not found[_least(found)].needed:
        more, further = _in_each(mixed, lambda each: bounded_choice(each, measured, bound, memory))
        found, problems = found | more, problems + further
    if not found:
        raise problems[0]
    best = _least(found)
    return best, found[best]


def _least(found: Mapping[Precisions, BoundedChoice]) -> Precisions:
    return min(found, key=lambda precisions: _weighed(precisions, found[precisions].milliseconds))


def _weighed(precisions: Precisions, milliseconds: float) -> float:
    return milliseconds * (1.0 + LEAST_GAIN) if len(precisions) > 1 else milliseconds


def _in_each(
    candidates: Mapping[Precisions, Candidates], find: Callable[[Candidates], Found]
) -> tuple[dict[Precisions, Found], list[ModelError]]:
    """Returns what was found for each precision, and for the others the reason why nothing was."""
    found: dict[Precisions, Found] = {}
    problems: list[ModelError] = []
    for precisions, each in candidates.items():
        try:
            found[precisions] = find(each)
        except ModelError as error:
            problems.append(error)
    return found, problems


# Which launches have to be measured until the choice of least cost rests on measured ones only.
#
# With an optimistic time for whatever is not measured yet, the least total is a lower bound of the truth. So once a
# choice of that least total uses measured launches only, no other can be better, whatever the rest would cost
# (the argument of A*, Hart, Nilsson and Raphael 1968). Until then the launches that it lacks are the ones to measure.
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
