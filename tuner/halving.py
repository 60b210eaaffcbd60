"""Successive halving: all variants with few local sizes, then the better variants with more; and all that is left.

The variant matters most, so the search settles it first. Each rung (round of the halving) keeps a share of every
launch's variants and tries twice as many local sizes of those that stay; the family's ranking chooses which ones.
Source: K. Jamieson, A. Talwalkar, "Non-stochastic Best Arm Identification and Hyperparameter Optimization", 2016.
An exhaustive search goes on in the order that this suggests, so that a budget that ends it early loses little.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Generator, Iterator

from runtime.kernels.spec import Variant
from tuner.family import Family, Following, TuningTask

VARIANTS_A_TURN = 4  # so many are tried before other kernels may have their turn
_FREE_SIZES = 3  # times the local sizes, where they cost no build
_LEAST_SIZES = 3  # of a variant, where builds are cheap: one that does not suit it says little of the variant
_PATIENCE = 2  # turns without a promising variant, where builds are cheap


@dataclasses.dataclass(frozen=True)
class Halving:
    """Settings of a search.

    Attributes:
        keep: share of the variants that a rung keeps.
        first, last: local sizes tried of each variant in the first and the last rung; they double between.
    """

    keep: float
    first: int
    last: int

    def explore(self, family: Family) -> Iterator[None]:
        """Searches a family, a few variants of a rung at a time.

        Variants are in order of promise: a turn without one that is near any launch's best ends the first rung. What is
        left then waits until those that were tried have had their local sizes. Where builds are cheap a second such
        turn ends it, and each turn says anew what is promising.
        """
        waiting = {task.key: family.variants(task) for task in family.tasks}
        while any(waiting.values()):
            alive, count = waiting, self.first
            while count <= self.last:
                left = yield from self._rung(family, alive, count)
                if count == self.first:
                    waiting = {key: [each for each in variants if each in left] for key, variants in alive.items()}
                    alive = {key: [each for each in variants if each not in left] for key, variants in alive.items()}
                alive = {task.key: self._survivors(family, task, alive[task.key]) for task in family.tasks}
                count *= 2

    def _rung(self, family: Family, alive: dict[str, list[Variant]], count: int) -> Generator[None, None, set[Variant]]:
        """Tries variants turn by turn; returns those that the first rung leaves."""
        waiting = list(_by_variant(family, alive))
        size = max(VARIANTS_A_TURN, family.units)
        hopeless = 0
        while waiting and hopeless < (_PATIENCE if family.builds_are_cheap else 1):
            turn, waiting = waiting[:size], waiting[size:]
            family.in_parallel(
                functools.partial(_try_some, family, *each, count, turn[place + 1 :]) for place, each in enumerate(turn)
            )
            yield
            if count == self.first:
                hopeless += not any(family.is_promising(*each) for each in turn)
                if family.builds_are_cheap:
                    waiting.sort(key=lambda each: family.expected_gap(each[0]))
        return {variant for variant, _ in waiting}

    def _survivors(self, family: Family, task: TuningTask, variants: list[Variant]) -> list[Variant]:
        ranked = [
            variant for variant in family.variants(task) if variant in variants and not family.is_suspect(variant)
        ]
        tried = [variant for variant in ranked if not family.is_far_behind(variant)]
        return tried[: math.ceil(len(ranked) * self.keep)]

    def estimate(self, family: Family) -> int:
        """About how many programs `explore` will try."""
        variants = max(len(family.variants(task)) for task in family.tasks)
        total, count = 0, self.first
        while count <= self.last:
            total += variants * count
            variants, count = math.ceil(variants * self.keep), count * 2
        return total


def _by_variant(family: Family, alive: dict[str, list[Variant]]) -> Iterator[tuple[Variant, list[TuningTask]]]:
    """Each variant with the tasks that still hold it, first those that are the most promising of some task."""
    places: dict[Variant, int] = {}
    for task in family.tasks:
        for place, variant in enumerate(alive[task.key]):
            places[variant] = min(place, places.get(variant, place))
    for variant in sorted(places, key=lambda variant: places[variant]):
        yield variant, [task for task in family.tasks if variant in alive[task.key]]


def _try_some(family: Family, variant: Variant, tasks: list[TuningTask], count: int, following: Following) -> None:
    """Tries `count` programs of a variant, each chosen by a ranking that knows the times of those before.

    Where local sizes cost no build, more of them are tried as long as the variant is nearly the best.
    """
    if family.is_suspect(variant) or family.is_far_behind(variant):
        return
    for number in range(_FREE_SIZES * count):
        is_due = number < _LEAST_SIZES and family.builds_are_cheap
        is_free = family.sizes_are_free and family.is_promising(variant, tasks)
        if number >= count and not is_due and not is_free:
            return
        promising = family.suggest(variant, tasks)
        if not promising:
            return
        family.time_on(promising[0], tasks, following=following)


@dataclasses.dataclass(frozen=True)
class Exhaustive:
    """Settings: the search that runs first and orders the candidates."""

    screening: Halving

    def explore(self, family: Family) -> Iterator[None]:
        """Tries all candidates that the screening left out, the most promising variants and programs first."""
        yield from self.screening.explore(family)
        waiting = list(dict.fromkeys(variant for task in family.tasks for variant in family.variants(task)))
        while waiting:
            programs = family.suggest(waiting.pop(0), family.tasks)
            following = [(variant, family.tasks) for variant in waiting]
            family.in_parallel(
                functools.partial(family.time_on, program, family.tasks, False, following) for program in programs
            )
            yield

    def estimate(self, family: Family) -> int:
        """Programs that `explore` will try."""
        return len({candidate for task in family.tasks for candidate in task.guesses})
