"""Schedules families: next is always the one expected to save most of the models' time per second of device time.

What a rung may save is at most what the family's launches take above what the device's peaks allow. A family that is at
the peaks is left, as long as these hold: they may be disproved later. So is one whose first rungs have shown nothing.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Iterator
from typing import Protocol

from tuner.family import Family
from tuner.floors import NEAR
from tuner.halving import VARIANTS_A_TURN
from tuner.trial_runner import TrialRunner

_FIRST_GAIN = 0.3  # of a family's time: what its first rung is expected to save
_NEXT_GAIN = 0.5  # of what the last rung saved, is what the next is expected to
_LEAST_GAIN = 0.005  # of a family's time: what a rung may save that follows one without success
_SIGN = 0.02  # of a family's time: a rung that saves less shows nothing
_LATER = 3  # times the patience with the first rungs: so many in a row that gain nothing are the end
PROGRAM_S = 0.1  # a program's device time, as long as none is known


class Strategy(Protocol):
    """How the candidates of a family are chosen."""

    def explore(self, family: Family) -> Iterator[None]:
        """Tries programs on a family, one rung before each yield; the family's ranking collects the times."""

    def estimate(self, family: Family) -> int:
        """About how many programs `explore` will try."""


def explore_families(
    families: Iterable[Family],
    strategy: Strategy,
    runner: TrialRunner,
    patience: float = math.inf,
    returns: bool = False,
) -> Iterator[Family]:
    """Explores all families to their end, rung by rung; yields each rung's family before exploring it.

    A family that runs by default is left that has saved nothing in its first `patience` rungs, or nothing more in three
    times as many, with `returns` only until no other has any to explore. Where others search too, chance decides as
    well, so that they are not all at the same family.
    """
    unfinished = [_ScheduledFamily(family, strategy, runner, patience) for family in families]
    while worthwhile := _worthwhile(unfinished, returns):
        gains = [scheduled.gain_per_device_second for scheduled in worthwhile]
        if runner.has_company and sum(gains) > 0:
            (best,) = random.choices(worthwhile, gains)
        else:
            best = worthwhile[gains.index(max(gains))]
        yield best.family
        if not best.explore_rung():
            unfinished.remove(best)


def _worthwhile(unfinished: Iterable[_ScheduledFamily], returns: bool) -> list[_ScheduledFamily]:
    """The families in which something may be found; those that have shown nothing come after all others, or never."""
    above_peaks = [scheduled for scheduled in unfinished if not scheduled.is_at_peak]
    return [scheduled for scheduled in above_peaks if not scheduled.is_hopeless] or (above_peaks if returns else [])


class _ScheduledFamily:
    """A family that waits for its next rung, with the gain and the cost expected of it."""

    def __init__(self, family: Family, strategy: Strategy, runner: TrialRunner, patience: float) -> None:
        self.family = family
        self._patience, self._default_ns = patience, family.time_ns
        self._explored = self._rungs_since_gain = 0
        self._rungs = strategy.explore(family)
        self._runner = runner
        self._expected_ns = _FIRST_GAIN * family.time_ns
        variants = max(len(family.variants(task)) for task in family.tasks)
        self._programs = min(variants, VARIANTS_A_TURN)
        self._cost_s: float | None = None

    @property
    def is_at_peak(self) -> bool:
        """Returns whether next to nothing can be saved, by the device's peaks."""
        return self._savable_ns <= NEAR * self.family.time_ns

    @property
    def is_hopeless(self) -> bool:
        """Returns whether the first rungs have shown nothing to save, or the last ones nothing more."""
        is_exhausted = self._rungs_since_gain >= _LATER * self._patience
        is_hopeless = is_exhausted or (self._explored >= self._patience and not self._has_saved)
        return is_hopeless and self.family.runs_by_default

    @property
    def _has_saved(self) -> bool:
        return self.family.saved_ns >= _SIGN * self._default_ns

    @property
    def _savable_ns(self) -> float:
        return self.family.time_ns - self.family.least_ns

    @property
    def gain_per_device_second(self) -> float:
        """Time of the models, in ns, that the next rung is expected to save for each second of device time."""
        return min(self._expected_ns, self._savable_ns) / (
            self._cost_s or self._programs * (self.family.build_s or PROGRAM_S)
        )

    def explore_rung(self) -> bool:
        """Explores one rung and updates the expectation; False when there was none left."""
        before_ns, before_s = self.family.time_ns, self._runner.spent_s
        if next(self._rungs, self) is self:
            return False
        self._explored += 1
        if self._explored >= self._patience and self._has_saved:
            self.family.confirm()
        gain_ns = before_ns - self.family.time_ns
        if gain_ns >= _LEAST_GAIN * before_ns:
            self._rungs_since_gain = 0
        elif self._runner.spent_s > before_s:
            self._rungs_since_gain += 1
        self._expected_ns = max(_NEXT_GAIN * gain_ns, _LEAST_GAIN * before_ns)
        self._cost_s = max(self._runner.spent_s - before_s, math.ulp(1.0))
        return True
