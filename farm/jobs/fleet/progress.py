"""Who is told how far the units are: a protocol for the command line's views, and one unit's end of it."""

from __future__ import annotations

import dataclasses
from typing import Protocol

from farm.rows.row import DeviceState
from tuner.trial_runner import Progress as SearchProgress


class Watch(Protocol):
    """A view of all units; told from several threads."""

    def stage(self, unit: str, text: str) -> None:
        """What a unit is at now."""

    def search(self, unit: str, progress: SearchProgress) -> None:
        """How far the search is that a unit takes part in."""

    def state(self, unit: str, state: DeviceState) -> None:
        """What a unit's sensors say."""

    def ended(self, unit: str, text: str) -> None:
        """A unit has nothing more to do, or is lost."""


class Unwatched:
    """A view that nobody looks at."""

    def stage(self, unit: str, text: str) -> None:
        """See Watch."""

    def search(self, unit: str, progress: SearchProgress) -> None:
        """See Watch."""

    def state(self, unit: str, state: DeviceState) -> None:
        """See Watch."""

    def ended(self, unit: str, text: str) -> None:
        """See Watch."""


UNWATCHED = Unwatched()


@dataclasses.dataclass
class UnitWatch:
    """One unit's end of a view; `reached` tells whether the unit was there at all."""

    unit: str
    watch: Watch = UNWATCHED
    reached: bool = False

    def stage(self, text: str) -> None:
        """What the unit is at now."""
        self.watch.stage(self.unit, text)

    def search(self, progress: SearchProgress) -> None:
        """How far the search is that the unit takes part in."""
        self.watch.search(self.unit, progress)

    def state(self, state: DeviceState) -> DeviceState:
        """What the unit's sensors say."""
        self.watch.state(self.unit, state)
        return state

    def ended(self, text: str) -> None:
        """The unit has nothing more to do, or is lost."""
        self.watch.ended(self.unit, text)
