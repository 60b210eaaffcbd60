"""The wall time that a tuning may take on a unit, everything included, and how search and proof share it."""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable

PROOF_SHARE = 0.4  # of the time that is left after the trial plan was made: compiling, and processes that run in turns
PROOF_ROUNDS = 5  # at the very least: one that compiles, and two of the default and of what was found, each

SELECTION_SHARE = 0.25  # of the time that is left: half for measuring what may be chosen, half for whole processes


def needed_wall_s(search_s: float, round_s: float, selects: bool) -> float:
    """The wall time of which enough is left for a search of so many seconds, to two digits; a proof keeps its share.

    `selects`: whether the plan is chosen first.
    """
    share = 1.0 - SELECTION_SHARE if selects else 1.0
    seconds = max(search_s / (1.0 - PROOF_SHARE), search_s + PROOF_ROUNDS * round_s) / share
    step = 10.0 ** max(math.floor(math.log10(max(seconds, 1.0))) - 1, 0)
    return math.ceil(seconds / step) * step


def half_way_s(ends_s: float) -> float:
    """The time, by the monotonic clock, that leaves as much again until the end."""
    return (time.monotonic() + ends_s) / 2


@dataclasses.dataclass
class WallBudget:
    """Counts down from `seconds`, which is for `models` models; `clock` counts seconds and never goes back."""

    seconds: float
    models: int
    clock: Callable[[], float] = time.monotonic

    def __post_init__(self) -> None:
        self._ends_s = self.clock() + self.seconds
        self._selected = self._searched = self._proved = 0

    @property
    def left_s(self) -> float:
        """The seconds of the budget that are left; never negative."""
        return max(self._ends_s - self.clock(), 0.0)

    def selection_ends_s(self) -> tuple[float, float]:
        """When measuring for the choice of the next model's plan must end, and when its proof, by the clock."""
        share = SELECTION_SHARE * self.left_s / max(self.models - self._selected, 1)
        self._selected += 1
        begin_s = self.clock()
        return begin_s + share / 2, begin_s + share

    def search_ends_s(self, models: int, round_s: float = 0.0) -> float:
        """When the search of the next models must end, by the clock; those after them keep their share.

        A proof of models one round of which takes `round_s`, all together, keeps time for PROOF_ROUNDS of them.
        """
        share_s = self.left_s * models / max(self.models - self._searched, models)
        self._searched += models
        return self.clock() + max(min((1.0 - PROOF_SHARE) * share_s, share_s - PROOF_ROUNDS * round_s), 0.0)

    def proof_ends_s(self) -> float:
        """When the proof of the next model must end, by the clock."""
        share = 1.0 / max(self.models - self._proved, 1)
        self._proved += 1
        return self.clock() + share * self.left_s
