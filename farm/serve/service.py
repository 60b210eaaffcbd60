"""What all answers are made from, and the changes that people with a token make."""

import dataclasses
import logging

from starlette.requests import Request

from farm.config.duration import parse_duration
from farm.safe_text import word
from farm.serve.access import Sessions
from farm.serve.kept_results import KeptResults
from farm.serve.source import UnitSource
from farm.serve.tokens import Tokens
from farm.serve.watcher import QueueWatcher, ResultsWatcher, UnitWatcher, WatchedUnit
from runtime.errors import ConfigError, FarmError, NoUnitError, UnitBusyError

LOG = logging.getLogger(__name__)
MAX_REASON = 60
ACTIONS = ("reserve", "release", "check")


@dataclasses.dataclass(frozen=True)
class FarmService:
    """The parts of the service.

    `others`: other hosts' results; `is_encrypted`: whether browsers reach it by HTTPS; `base`: the path that it lies
    below behind a proxy, without a slash at its end.
    """

    source: UnitSource
    watcher: UnitWatcher
    queue: QueueWatcher
    results: KeptResults
    tokens: Tokens
    sessions: Sessions
    others: ResultsWatcher = dataclasses.field(default_factory=ResultsWatcher)
    is_encrypted: bool = False
    base: str = ""

    def unit(self, name: str) -> WatchedUnit:
        """A unit that was seen at the last look; NoUnitError for any other."""
        found = self.watcher.snapshot.units.get(name)
        if found is None:
            raise NoUnitError(f"{word(name)}: no such unit")
        return found

    def change_unit(self, action: str, name: str, person: str, asked: dict[str, object]) -> str:
        """Reserves, releases or checks a unit in a person's name; returns a line that says what was done."""
        if action not in ACTIONS:
            raise ConfigError(f"{word(action)}: no such action; there are {', '.join(ACTIONS)}")
        self.unit(name)
        LOG.info("%s: %s by %s", name, action, person)
        force = asked.get("force") in (True, "yes")
        try:
            if action == "reserve":
                duration_s, reason = _duration(asked), _reason(asked)
                return self.source.reserve(name, duration_s, reason, person, force)
            if action == "release":
                return self.source.release(name, person, force)
            bad = [f"{each.name}: {each.text}" for each in self.source.check(name) if not each.ok]
            return f"{name}: {'; '.join(bad) if bad else 'all points of the check are good'}"
        finally:
            self.watcher.look_soon()

    def cancel_job(self, job: str, person: str) -> str:
        """Ends a job of the cluster's queue."""
        LOG.info("job %s: cancelled by %s", job, person)
        self.source.cancel_job(job, person)
        return f"job {job}: is told to end"

    def cancel_run(self, run: int, person: str) -> str:
        """Ends a run as Ctrl-C would."""
        LOG.info("run %d: cancelled by %s", run, person)
        self.results.interrupt(run)
        return f"run {run}: is told to end"


def service_of(request: Request) -> FarmService:
    """The service that a request is for."""
    found: FarmService = request.app.state.service
    return found


def http_status(error: FarmError) -> int:
    """The HTTP status that says what kind of error it is."""
    kinds = ((UnitBusyError, 409), (NoUnitError, 404), (ConfigError, 400))
    return next((status for kind, status in kinds if isinstance(error, kind)), 502)


def _duration(asked: dict[str, object]) -> float:
    try:
        return parse_duration(str(asked.get("for", "")))
    except ValueError as error:
        raise ConfigError(f"for: {error}") from None


def _reason(asked: dict[str, object]) -> str:
    reason = word(asked.get("reason", ""), MAX_REASON)
    if not reason:
        raise ConfigError("reason: say what the unit is reserved for")
    return reason
