"""Successive halving: all variants with few local sizes, then the better variants with more.

The variant matters most, so the search settles it first. Each rung (round of the halving) keeps a share of every
launch's variants and tries twice as many local sizes of those that stay; the family's ranking chooses which ones.
Source: K. Jamieson, A. Talwalkar, "Non-stochastic Best Arm Identification and Hyperparameter Optimization", 2016.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Iterator

from runtime.kernels.spec import Variant
from tuner.family import Family, TuningTask

_FREE_SIZES = 3  # times the local sizes, where they cost no build


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
        """Searches a family, a rung at a time."""
        alive = {task.key: family.variants(task) for task in family.tasks}
        count = self.first
        while count <= self.last:
            family.in_parallel(
                functools.partial(_try_some, family, variant, tasks, count)
                for variant, tasks in _by_variant(family, alive)
            )
            alive = {task.key: self._survivors(family, task, alive[task.key]) for task in family.tasks}
            count *= 2
            yield

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
    """Each variant with the tasks that still hold it, the most promising of the heaviest task first."""
    for variant in dict.fromkeys(variant for task in family.tasks for variant in alive[task.key]):
        yield variant, [task for task in family.tasks if variant in alive[task.key]]


def _try_some(family: Family, variant: Variant, tasks: list[TuningTask], count: int) -> None:
    """Tries `count` programs of a variant, each chosen by a ranking that knows the times of those before.

    Where local sizes cost no build, more of them are tried as long as the variant is nearly the best.
    """
    if family.is_suspect(variant) or family.is_far_behind(variant):
        return
    for number in range(count if family.builds_each_size else _FREE_SIZES * count):
        if number >= count and not family.is_promising(variant, tasks):
            return
        promising = family.suggest(variant, tasks)
        if not promising:
            return
        family.time_on(promising[0], tasks)
