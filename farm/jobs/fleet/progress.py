"""Progress of jobs on many units: what a view of it must offer, and the reporter that each unit's job is given."""

from __future__ import annotations

import dataclasses
import logging
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # a scheduler, too, reads events
    from farm.rows.device_state import DeviceState
    from tuner.progress import Progress as SearchProgress

LOG = logging.getLogger("farm.jobs")


class ProgressView:
    """Shows how far all units are; called from several threads. A view overrides what it shows."""

    def stage(self, unit: str, text: str) -> None:
        """Tells which stage a unit is at."""

    def here(self, text: str) -> None:
        """Tells which stage this machine is at, before any unit has to do."""
        self.stage("host", text)

    def waiting(self, unit: str, text: str) -> None:
        """Why a unit cannot be used yet: who holds it and until when, say."""
        self.stage(unit, text)

    def search(self, unit: str, progress: SearchProgress) -> None:
        """How far the search is that a unit takes part in."""

    def state(self, unit: str, state: DeviceState) -> None:
        """Tells the state that a unit's sensors report."""

    def ended(self, unit: str, text: str) -> None:
        """A unit has nothing more to do, or is lost."""


SILENT = ProgressView()


@dataclasses.dataclass
class UnitProgress:
    """Reports one unit's progress to a view; `reached` tells whether the unit could be connected to at all."""

    unit: str
    view: ProgressView = SILENT
    reached: bool = False

    def stage(self, text: str) -> None:
        """Tells which stage the unit is at."""
        LOG.info("%s: %s", self.unit, text)
        self.view.stage(self.unit, text)

    def waiting(self, text: str) -> None:
        """Why the unit cannot be used yet, with or without its name."""
        LOG.info("%s: %s", self.unit, text)
        self.view.waiting(self.unit, text.removeprefix(f"{self.unit}: "))

    def search(self, progress: SearchProgress) -> None:
        """How far the search is that the unit takes part in."""
        self.view.search(self.unit, progress)

    def state(self, state: DeviceState) -> DeviceState:
        """Tells the state that the unit's sensors report."""
        self.view.state(self.unit, state)
        return state

    def ended(self, text: str) -> None:
        """The unit has nothing more to do, or is lost."""
        LOG.info("%s: %s", self.unit, text)
        self.view.ended(self.unit, text)
