"""How much fits into the time that is left, where nobody knows beforehand how long a unit takes to build a program."""

from __future__ import annotations

import dataclasses

MOST = 8  # in one trial plan: all of its programs are built before the first is timed


@dataclasses.dataclass
class Pace:
    """Counts what fits into the time that is left, if each takes as long as in the slowest batch so far.

    The first batch has one member, so that what takes long is known before much of it is begun.
    """

    slowest_s: float = 0.0

    def fitting(self, left_s: float) -> int:
        """Members of the next batch; 0 where no further one would end in time."""
        if left_s <= 0.0:
            return 0
        return int(min(left_s / self.slowest_s, MOST)) if self.slowest_s else 1

    def note(self, members: int, seconds: float) -> None:
        """Adds a batch."""
        self.slowest_s = max(self.slowest_s, seconds / members)
