"""Quarantine: units that fail too often get no jobs until they pass a health check.

This host remembers how the last jobs on each unit ended. A unit that failed too many of them, or a health check, is in
quarantine: jobs skip it until its next check is due. The first job after that time runs the check.
"""

import contextlib
import dataclasses
import functools
import hashlib
import logging
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import filelock
from pydantic import BaseModel, ConfigDict, ValidationError

from farm import atomic_file, safe_text
from farm.config.inventory import Unit
from farm.lease import host_lock
from farm.rows.status import Status
from farm.workspace import BUILD_FOLDER, file_part
from runtime.errors import DeviceError, FarmError

LOG = logging.getLogger("farm.units")
FOLDER = BUILD_FOLDER / "health"
LOCK_TIMEOUT_S = 10.0
MAX_REASON = 300
QUARANTINED = "quarantined"  # the kind of the error
# Failures that count against the unit; others come from the model, from a driver that refuses it, or from the user.
UNIT_FAULTS = frozenset({Status.TIMEOUT, Status.DEVICE_LOST})


@dataclasses.dataclass(frozen=True)
class QuarantinePolicy:
    """When a unit goes into quarantine, and when it is checked again.

    Attributes:
        failures, of_last: quarantine begins at so many failures among the last `of_last` jobs.
        recheck_s: time until the first check; it doubles with each check that fails, up to `longest_s`.
    """

    failures: int = 3
    of_last: int = 5
    recheck_s: float = 600.0
    longest_s: float = 3600.0


POLICY = QuarantinePolicy()


class _FrozenModel(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class JobOutcome(_FrozenModel):
    """How a job ended on the unit; `time` is a Unix time."""

    time: float
    ok: bool
    reason: str = ""


class Quarantine(_FrozenModel):
    """Why a unit gets no jobs, since when, and when it is checked again (Unix times)."""

    reason: str
    since: float
    recheck_at: float
    failed_checks: int = 0

    def is_due(self, now: float) -> bool:
        """Whether a check is due; also true when the clock was set back to before the quarantine."""
        return now >= self.recheck_at or now < self.since

    @property
    def line(self) -> str:
        """For people: `in quarantine since 2026-03-01 12:30: 3 of 5 jobs failed; checked again from ... 12:40 on`."""
        since, again = (time.strftime("%Y-%m-%d %H:%M", time.localtime(at)) for at in (self.since, self.recheck_at))
        return f"in quarantine since {since}: {self.reason}; checked again from {again} on"


class HealthHistory(_FrozenModel):
    """The last outcomes on a unit, and its quarantine if it is in one."""

    outcomes: tuple[JobOutcome, ...] = ()
    quarantine: Quarantine | None = None


@dataclasses.dataclass(frozen=True)
class CheckResult:
    """The result of one point of a health check; `text` holds readings, or why it failed."""

    name: str
    ok: bool
    text: str = ""


def after_job(history: HealthHistory, outcome: JobOutcome, policy: QuarantinePolicy = POLICY) -> HealthHistory:
    """Adds a job's outcome to the history; too many failures begin a quarantine, and no job ends one."""
    outcomes = (*history.outcomes, outcome)[-policy.of_last :]
    failed = [past for past in outcomes if not past.ok]
    quarantine = history.quarantine
    if quarantine is None and len(failed) >= policy.failures:
        reason = f"{len(failed)} of the last {len(outcomes)} jobs failed, the last one: {failed[-1].reason}"
        quarantine = Quarantine(reason=reason, since=outcome.time, recheck_at=outcome.time + policy.recheck_s)
    return HealthHistory(outcomes=outcomes, quarantine=quarantine)


def after_check(
    history: HealthHistory, results: list[CheckResult], now: float, policy: QuarantinePolicy = POLICY
) -> HealthHistory:
    """The history after a check: a passed one clears it; a failed one begins or prolongs a quarantine."""
    failed = [result for result in results if not result.ok]
    if not failed:
        return HealthHistory()
    before = history.quarantine
    failed_checks = before.failed_checks + 1 if before else 1
    delay_s = min(policy.recheck_s * 2 ** min(failed_checks - 1, 30), policy.longest_s)
    reason = safe_text.word("; ".join(f"{result.name}: {result.text}" for result in failed), MAX_REASON)
    since = before.since if before and before.since <= now else now
    quarantine = Quarantine(reason=reason, since=since, recheck_at=now + delay_s, failed_checks=failed_checks)
    return HealthHistory(outcomes=history.outcomes, quarantine=quarantine)


class HealthRecords:
    """Keeps the health history of each unit in a file."""

    def __init__(self, folder: Path = FOLDER, policy: QuarantinePolicy = POLICY) -> None:
        self._folder, self._policy = folder, policy

    def read(self, unit: Unit) -> HealthHistory:
        """Reads a unit's history; it is empty where the file is missing or damaged."""
        try:
            return HealthHistory.model_validate_json(self._file(unit).read_bytes())
        except (OSError, ValidationError):
            return HealthHistory()

    def record_job(self, unit: Unit, status: Status, reason: str = "", now: float | None = None) -> HealthHistory:
        """Records how a job ended; a failure that is not the unit's fault counts as a success."""
        ok = status not in UNIT_FAULTS
        outcome = JobOutcome(time=_now(now), ok=ok, reason="" if ok else safe_text.word(reason, MAX_REASON))
        return self._changed(unit, lambda history: after_job(history, outcome, self._policy))

    def record_check(self, unit: Unit, results: list[CheckResult], now: float | None = None) -> HealthHistory:
        """Records the results of a health check."""
        return self._changed(unit, lambda history: after_check(history, results, _now(now), self._policy))

    def admit(self, unit: Unit, check: Callable[[], list[CheckResult]], now: float | None = None) -> None:
        """Decides whether a job may use a unit; checks a unit in quarantine first when its check is due.

        Raises:
            DeviceError: the unit is in quarantine, and remains so; its kind is QUARANTINED.
        """
        quarantine = self.read(unit).quarantine
        if quarantine and quarantine.is_due(_now(now)):
            quarantine = self.record_check(unit, check(), now).quarantine
        if quarantine:
            line = f"{unit.name}: {quarantine.line}; `farm devices check {unit.name}` checks it now"
            raise DeviceError(line, QUARANTINED)

    def _file(self, unit: Unit) -> Path:
        digest = hashlib.sha256(host_lock.connection_key(unit).encode()).hexdigest()[:8]
        return self._folder / f"{file_part(unit.name)}.{digest}.json"

    def _changed(self, unit: Unit, change: Callable[[HealthHistory], HealthHistory]) -> HealthHistory:
        """The history after a change. That it cannot be kept (a full disk) is told: no job or check fails by that."""
        path = self._file(unit)
        try:
            with _locked(path.with_suffix(".lock")):
                history = change(self.read(unit))
                atomic_file.write(path, history.model_dump_json(indent=1).encode())
                return history
        except FarmError as error:
            _tell_once(f"{unit.name}: how its jobs ended is not remembered: {error}")
            return change(self.read(unit))


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = filelock.FileLock(path)
        lock.acquire(timeout=LOCK_TIMEOUT_S)
    except (filelock.Timeout, OSError) as error:
        raise FarmError(f"{path}: cannot be locked: {error.strerror or error}") from None
    try:
        yield
    finally:
        lock.release()


@functools.cache
def _tell_once(line: str) -> None:
    LOG.warning(line)


def _now(now: float | None) -> float:
    return time.time() if now is None else now
