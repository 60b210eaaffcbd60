"""Progress of jobs on many units: what a view must offer, each job's reporter, and events as lines of JSON."""

from __future__ import annotations

import dataclasses
import json
import logging
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TextIO

from tuner.progress import Progress as SearchProgress

if TYPE_CHECKING:  # a scheduler, too, reads events
    from farm.rows.device_state import DeviceState


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


PROGRESS_FORM = "FARM_PROGRESS"  # the variable that asks for this form: `json`
STAGE, WAITING, SEARCH, STATE, ENDED = "stage", "waiting", "search", "state", "ended"
NOTE = "note"  # not for a view: what was measured, for who keeps it


class ProgressLines(ProgressView):
    """A view that writes each event as a line."""

    def __init__(self, stream: TextIO) -> None:
        self._stream, self._lock = stream, threading.Lock()

    def stage(self, unit: str, text: str) -> None:
        """See ProgressView."""
        self._write(STAGE, unit, text)

    def waiting(self, unit: str, text: str) -> None:
        """See ProgressView."""
        self._write(WAITING, unit, text)

    def search(self, unit: str, progress: SearchProgress) -> None:
        """See ProgressView."""
        self._write(SEARCH, unit, dataclasses.asdict(progress))

    def state(self, unit: str, state: DeviceState) -> None:
        """See ProgressView."""
        self._write(STATE, unit, state.model_dump(mode="json"))

    def ended(self, unit: str, text: str) -> None:
        """See ProgressView."""
        self._write(ENDED, unit, text)

    def note(self, unit: str, value: Any) -> None:
        """Tells what was measured, as plain data, to a program that keeps it."""
        self._write(NOTE, unit, value)

    def _write(self, event: str, unit: str, value: Any) -> None:
        with self._lock:
            self._stream.write(json.dumps({"event": event, "unit": unit, "value": value}) + "\n")
            self._stream.flush()


def parse_event(line: str) -> dict[str, Any] | None:
    """The event of a line; None where the line is something else."""
    try:
        event = json.loads(line)
    except ValueError:
        return None
    return event if isinstance(event, dict) and {"event", "unit", "value"} <= event.keys() else None


def progress_text(event: Mapping[str, Any]) -> str:
    """A stage, what is waited for, or how far a search is, in a few words."""
    value = event["value"]
    if event["event"] != SEARCH:
        return str(value)
    search = SearchProgress(**value)
    return f"{search.stage}: {search.share:.0%}, {search.trials} trials"


def replay(event: dict[str, Any], view: ProgressView, unit: str) -> None:
    """Shows an event of a job, as that of `unit`; a job's end on a host is not the unit's."""
    value = event["value"]
    if event["event"] == STAGE:
        view.stage(unit, str(value))
    elif event["event"] == WAITING:
        view.waiting(unit, str(value))
    elif event["event"] == SEARCH:
        view.search(unit, SearchProgress(**value))
    elif event["event"] == STATE:
        from farm.rows.device_state import DeviceState

        view.state(unit, DeviceState.model_validate(value))
