"""Exhaustive search: a screening search first, then all other candidates in the order that the screening suggests.

Since the most promising candidates come first, a budget that ends the search early loses little.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator

from tuner.family import Family
from tuner.halving import Halving


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
