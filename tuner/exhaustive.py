"""Every candidate on every launch, after a search that learns in which order: a budget that ends it costs little."""

from __future__ import annotations

import dataclasses

from tuner.family import Family
from tuner.halving import Halving


@dataclasses.dataclass(frozen=True)
class Exhaustive:
    """Settings of a search: the one that goes first."""

    first: Halving

    def explore(self, family: Family, share: float) -> None:
        """Tries all that the first search left out, the most promising programs first."""
        self.first.explore(family, share)
        variants = dict.fromkeys(variant for task in family.tasks for variant in family.variants(task))
        for variant in variants:
            for candidate in family.suggest(variant, family.tasks):
                family.try_on(candidate, family.tasks, give_up=False)

    def estimate(self, family: Family, share: float) -> int:
        """Programs that `explore` will try."""
        return len({candidate for task in family.tasks for candidate in task.guesses})
