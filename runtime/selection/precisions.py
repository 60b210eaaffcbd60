"""The precision of a plan, where several are allowed: the cheapest choice in each is found exactly, the least counts.

A plan has one precision for all of its tensors and kernels, so that the choices in two precisions have nothing in
common: the cheapest of all is the cheapest of their optima, and is as far proven as the least proven one of these. A
precision in which no choice keeps the memory limit is left out.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from runtime.errors import ModelError
from runtime.graph import Graph
from runtime.lowering.options import Options
from runtime.selection.candidates import Candidates, find_candidates
from runtime.selection.costs import LaunchCosts
from runtime.selection.memory import CHEAPEST, MemoryGoal
from runtime.selection.needed import Needed, bounded_choice
from runtime.selection.selection import GraphSelection, select_among
from runtime.target import Target
from runtime.types import Precision

CostsIn = Callable[[Precision], LaunchCosts]  # what launches cost in a precision
Found = TypeVar("Found")


def candidates_in_each(
    graph: Graph, target: Target, precisions: Iterable[Precision], options: Options
) -> dict[Precision, Candidates]:
    """The candidates of a graph on a target, which has each of these precisions in turn."""
    return {each: find_candidates(graph, dataclasses.replace(target, precision=each), options) for each in precisions}


def select_in_each(
    candidates: Mapping[Precision, Candidates], costs: CostsIn, memory: MemoryGoal = CHEAPEST
) -> dict[Precision, GraphSelection]:
    """The cheapest choice in each precision, the cheapest of all first; of equals the one that is given first.

    Raises ModelError where no choice keeps the memory limit in any precision.
    """
    found = _in_each(candidates, lambda precision, each: select_among(each, costs(precision), memory))
    return dict(sorted(found.items(), key=lambda entry: entry[1].milliseconds))


def needed_in_cheapest(
    candidates: Mapping[Precision, Candidates],
    measured: Mapping[str, float],
    bound: CostsIn,
    memory: MemoryGoal = CHEAPEST,
) -> tuple[Precision, list[Needed]]:
    """The precision whose choice may be the cheapest of all, and the launches to measure for it.

    None is left where that choice rests on measured launches only: the bounds of the other precisions are not less.
    Raises ModelError as `select_in_each` does.
    """
    found = _in_each(candidates, lambda precision, each: bounded_choice(each, measured, bound(precision), memory))
    best = min(found, key=lambda precision: found[precision].milliseconds)
    return best, found[best].needed


def _in_each(
    candidates: Mapping[Precision, Candidates], find: Callable[[Precision, Candidates], Found]
) -> dict[Precision, Found]:
    found: dict[Precision, Found] = {}
    problems: list[ModelError] = []
    for precision, each in candidates.items():
        try:
            found[precision] = find(precision, each)
        except ModelError as error:
            problems.append(error)
    if not found:
        raise problems[0]
    return found
