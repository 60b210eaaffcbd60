"""Every candidate on every launch, after a search that learns in which order: a budget that ends it costs little."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator

from tuner.family import Family
from tuner.halving import Halving


@dataclasses.dataclass(frozen=True)
class Exhaustive:
    """Settings of a search: the one that goes first."""

    first: Halving

    def explore(self, family: Family) -> Iterator[None]:
        """Tries all that the first search left out, the most promising variants and programs first."""
        yield from self.first.explore(family)
        for variant in dict.fromkeys(variant for task in family.tasks for variant in family.variants(task)):
            programs = family.suggest(variant, family.tasks)
            family.in_parallel(functools.partial(family.try_on, each, family.tasks, False) for each in programs)
            yield

    def estimate(self, family: Family) -> int:
        """Programs that `explore` will try."""
        return len({candidate for task in family.tasks for candidate in task.guesses})
