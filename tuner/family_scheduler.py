"""Whose turn it is: the family that promises to save most of the models' time for a second of device time."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Protocol

from tuner.family import Family
from tuner.trial_runner import Lab

_FIRST_GAIN = 0.3  # of a family's time: what its first rung is expected to save
_NEXT_GAIN = 0.5  # of what the last rung saved, is what the next is expected to
_LEAST_GAIN = 0.005  # of a family's time: what a rung may save that follows one without success
_PROGRAM_S = 0.1  # a program's device time, as long as none is known


class Strategy(Protocol):
    """How the candidates of a family are chosen."""

    def explore(self, family: Family) -> Iterator[None]:
        """Tries programs on a family, a rung before each yield; the ranking keeps what comes of it."""

    def estimate(self, family: Family) -> int:
        """About how many programs that will be."""


def take_turns(families: Iterable[Family], strategy: Strategy, lab: Lab) -> Iterator[Family]:
    """Explores all families to their end, rung by rung; yields the family of each before its turn."""
    waiting = [_Turn(family, strategy, lab) for family in families]
    while waiting:
        turn = max(waiting, key=lambda each: each.promise)
        yield turn.family
        if not turn.play():
            waiting.remove(turn)


class _Turn:
    """A family between two rungs."""

    def __init__(self, family: Family, strategy: Strategy, lab: Lab) -> None:
        self.family = family
        self._rungs = strategy.explore(family)
        self._lab = lab
        self._expected_ns = _FIRST_GAIN * family.time_ns
        self._cost_s = _PROGRAM_S * max(len(family.variants(task)) for task in family.tasks)

    @property
    def promise(self) -> float:
        """Saved time of the models for device time."""
        return self._expected_ns / self._cost_s

    def play(self) -> bool:
        """Explores a rung; False when there was none left."""
        before_ns, before_s = self.family.time_ns, self._lab.spent_s
        if next(self._rungs, self) is self:
            return False
        gain_ns = before_ns - self.family.time_ns
        self._expected_ns = max(_NEXT_GAIN * gain_ns, _LEAST_GAIN * before_ns)
        self._cost_s = max(self._lab.spent_s - before_s, math.ulp(1.0))
        return True
