"""What a search may spend at most: device time, and a deadline; one object for all that tuning does and measures."""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable


@dataclasses.dataclass(frozen=True)
class Deadline:
    """A moment after which nothing further is begun: `at_s` by a clock that counts seconds, infinite for never."""

    at_s: float = math.inf
    clock: Callable[[], float] = time.monotonic

    @property
    def left_s(self) -> float:
        """The seconds until then; never negative."""
        return max(self.at_s - self.clock(), 0.0)

    @property
    def is_over(self) -> bool:
        """Whether the moment has come."""
        return self.clock() >= self.at_s

    def within(self, seconds: float) -> Deadline:
        """The deadline so many seconds from now, or this one where it comes before."""
        return dataclasses.replace(self, at_s=min(self.clock() + seconds, self.at_s))

    def share(self, part: float) -> Deadline:
        """The moment when that part of what is left now is spent."""
        return self.within(part * self.left_s)


NO_DEADLINE = Deadline()


@dataclasses.dataclass(frozen=True)
class Budget:
    """Seconds of device time, to be spent until a deadline.

    `grows`: whether there may be more device time where candidates take long.
    """

    device_s: float = math.inf
    deadline: Deadline = NO_DEADLINE
    grows: bool = False

    def left_s(self, spent_s: float) -> float:
        """What is left when so many device seconds are spent; negative where that was too much."""
        return min(self.device_s - spent_s, self.deadline.left_s)

    def covering(self, needed_s: float) -> Budget:
        """With so much device time at least, where it may grow."""
        return dataclasses.replace(self, device_s=max(self.device_s, needed_s)) if self.grows else self


NO_LIMIT = Budget()
