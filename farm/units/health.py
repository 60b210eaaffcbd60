"""Units that fail too often are left alone for a while: quarantine, and the check that ends it.

Of each unit this host remembers how the last jobs ended. A unit that failed too many of them, or its check, is in
quarantine: jobs pass it over until the time of the next check, which the first job after that makes.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
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

FOLDER = BUILD_FOLDER / "health"
LOCK_TIMEOUT_S = 10.0
MAX_REASON = 300
# What tells of the unit itself, and not of a model, a driver that refuses it, or the user.
UNITS_FAULTS = frozenset({Status.TIMEOUT, Status.DEVICE_LOST})


@dataclasses.dataclass(frozen=True)
class Policy:
    """So many failures among the last jobs mean quarantine; the time to the next check doubles with each that fails."""

    failures: int = 3
    of_last: int = 5
    recheck_s: float = 600.0
    longest_s: float = 3600.0


POLICY = Policy()


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Outcome(_Record):
    """How a job ended on the unit; times are Unix times."""

    time: float
    ok: bool
    reason: str = ""


class Quarantine(_Record):
    """Why a unit is left alone, since when, and when it is checked again."""

    reason: str
    since: float
    recheck_at: float
    failed_checks: int = 0

    def is_due(self, now: float) -> bool:
        """Whether it is time for a check; also when the clock was set back."""
        return now >= self.recheck_at or now < self.since

    @property
    def line(self) -> str:
        """`in quarantine since 2026-03-01 12:30: 3 of the last 5 jobs failed; checked again from 12:40 on`."""
        since, again = (time.strftime("%Y-%m-%d %H:%M", time.localtime(at)) for at in (self.since, self.recheck_at))
        return f"in quarantine since {since}: {self.reason}; checked again from {again} on"


class History(_Record):
    """What is remembered of a unit."""

    outcomes: tuple[Outcome, ...] = ()
    quarantine: Quarantine | None = None


@dataclasses.dataclass(frozen=True)
class Finding:
    """One point of a check."""

    name: str
    ok: bool
    text: str = ""


def after_job(history: History, outcome: Outcome, policy: Policy = POLICY) -> History:
    """What is remembered after a job; a unit in quarantine stays there."""
    outcomes = (*history.outcomes, outcome)[-policy.of_last :]
    failed = [each for each in outcomes if not each.ok]
    quarantine = history.quarantine
    if quarantine is None and len(failed) >= policy.failures:
        reason = f"{len(failed)} of the last {len(outcomes)} jobs failed, the last one: {failed[-1].reason}"
        quarantine = Quarantine(reason=reason, since=outcome.time, recheck_at=outcome.time + policy.recheck_s)
    return History(outcomes=outcomes, quarantine=quarantine)


def after_check(history: History, findings: list[Finding], now: float, policy: Policy = POLICY) -> History:
    """A good check forgives everything; a bad one means quarantine, each time for longer."""
    bad = [each for each in findings if not each.ok]
    if not bad:
        return History()
    before = history.quarantine
    failed_checks = before.failed_checks + 1 if before else 1
    delay_s = min(policy.recheck_s * 2 ** min(failed_checks - 1, 30), policy.longest_s)
    reason = safe_text.word("; ".join(f"{each.name}: {each.text}" for each in bad), MAX_REASON)
    since = before.since if before and before.since <= now else now
    quarantine = Quarantine(reason=reason, since=since, recheck_at=now + delay_s, failed_checks=failed_checks)
    return History(outcomes=history.outcomes, quarantine=quarantine)


class Records:
    """The histories of all units, a file each."""

    def __init__(self, folder: Path = FOLDER, policy: Policy = POLICY) -> None:
        self._folder, self._policy = folder, policy

    def read(self, unit: Unit) -> History:
        """What is remembered of a unit; nothing where the file is not there, or damaged."""
        try:
            return History.model_validate_json(self._file(unit).read_bytes())
        except (OSError, ValidationError):
            return History()

    def note_job(self, unit: Unit, status: Status, reason: str = "", now: float | None = None) -> History:
        """Remembers how a job ended; one that failed through no fault of the unit counts as good."""
        ok = status not in UNITS_FAULTS
        outcome = Outcome(time=_now(now), ok=ok, reason="" if ok else safe_text.word(reason, MAX_REASON))
        with self._changing(unit):
            history = after_job(self.read(unit), outcome, self._policy)
            self._write(unit, history)
        return history

    def note_check(self, unit: Unit, findings: list[Finding], now: float | None = None) -> History:
        """Remembers the outcome of a check."""
        with self._changing(unit):
            history = after_check(self.read(unit), findings, _now(now), self._policy)
            self._write(unit, history)
        return history

    def admit(self, unit: Unit, check: Callable[[], list[Finding]], now: float | None = None) -> None:
        """Lets a job at a unit; one in quarantine is checked first, when that is due.

        Raises:
            DeviceError: the unit is in quarantine, and stays there.
        """
        quarantine = self.read(unit).quarantine
        if quarantine and quarantine.is_due(_now(now)):
            quarantine = self.note_check(unit, check(), now).quarantine
        if quarantine:
            raise DeviceError(f"{unit.name}: {quarantine.line}; `farm devices check {unit.name}` checks it now")

    def _file(self, unit: Unit) -> Path:
        digest = hashlib.sha256(host_lock.identity(unit).encode()).hexdigest()[:8]
        return self._folder / f"{file_part(unit.name)}.{digest}.json"

    def _write(self, unit: Unit, history: History) -> None:
        atomic_file.write(self._file(unit), history.model_dump_json(indent=1).encode())

    @contextlib.contextmanager
    def _changing(self, unit: Unit) -> Iterator[None]:
        path = self._file(unit).with_suffix(".lock")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            lock = filelock.FileLock(path)
            lock.acquire(timeout=LOCK_TIMEOUT_S)
        except (filelock.Timeout, OSError) as error:
            raise FarmError(f"{path}: cannot be locked: {error}") from None
        try:
            yield
        finally:
            lock.release()


def _now(now: float | None) -> float:
    return time.time() if now is None else now
