"""Looks at all units, results and a cluster's queue, each again and again in a thread of its own."""

from __future__ import annotations

import contextlib
import dataclasses
import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from farm.cluster.queue import JobReport
from farm.cluster.result_tasks import HostResults, ResultKind
from farm.serve.source import Look, ResultSource, UnitSource
from farm.tables.devices import device_members
from farm.units.survey import NO_STATE, UnitReport, UnitState
from runtime.errors import FarmError, NoUnitError

EVERY_S = 15.0
REMEMBERED_LOOKS = 1000  # temperatures of a unit


@dataclasses.dataclass(frozen=True)
class WatchedUnit:
    """A unit as it was seen last; `version` is the look in which it changed, `host` empty where there is no cluster."""

    report: UnitReport
    members: dict[str, Any]
    version: int
    host: str = ""


@dataclasses.dataclass(frozen=True)
class Snapshot:
    """All units after a look.

    Attributes:
        time, took_s: when the look was made (Unix time), and how long it took.
        hosts: a host of the cluster -> why it does not answer; empty where it does.
        error: why the last look failed.
    """

    version: int = 0
    units: dict[str, WatchedUnit] = dataclasses.field(default_factory=dict)
    time: float = 0.0
    took_s: float = 0.0
    hosts: Mapping[str, str] = dataclasses.field(default_factory=dict)
    error: str = ""

    @property
    def trouble(self) -> str:
        """Why not all that is shown is of now; empty where it is."""
        silent = [f"{host} {why}" for host, why in self.hosts.items() if why]
        return "; ".join(filter(None, (self.error, *silent)))

    def changed_since(self, version: int) -> list[WatchedUnit]:
        """The units that changed after a look."""
        return [unit for unit in self.units.values() if unit.version > version]


class Watcher:
    """Looks every so many seconds in a thread, from `start` to `stop`; `snapshot` may be read by any thread."""

    def __init__(self, what: str, every_s: float) -> None:
        self._every_s, self._stopped, self._wake = every_s, False, threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"{what} watcher", daemon=True)

    def start(self) -> None:
        """Begins to look."""
        self._thread.start()

    def stop(self) -> None:
        """Ends it; a look that goes on is not waited for."""
        self._stopped = True
        self._wake.set()

    def look_soon(self) -> None:
        """Makes the next look now, as after a change."""
        self._wake.set()

    def look(self) -> object:
        """Looks once, and returns what is known then."""
        raise NotImplementedError

    def _run(self) -> None:
        while not self._stopped:
            self._wake.clear()
            with contextlib.suppress(FarmError):
                self.look()
            self._wake.wait(self._every_s)


class UnitWatcher(Watcher):
    """Looks at all units."""

    def __init__(self, source: UnitSource, every_s: float = EVERY_S) -> None:
        super().__init__("unit", every_s)
        self.snapshot = Snapshot()
        self._source = source
        self._temperatures: dict[str, deque[tuple[float, float]]] = {}
        self._looking = threading.Lock()

    def look(self) -> Snapshot:
        """Looks once, and returns what is known then."""
        with self._looking:
            begun_s, before = time.monotonic(), self.snapshot
            try:
                seen, error = self._source.look(), ""
            except (FarmError, OSError) as failure:
                seen, error = _last_look(before), str(failure)
            units = _merged(before, seen, before.version + 1)
            now = time.time()
            self._remember(seen.reports, now)
            took_s = time.monotonic() - begun_s
            self.snapshot = Snapshot(before.version + 1, units, now, took_s, seen.hosts, error)
            return self.snapshot

    def temperatures(self, name: str) -> list[tuple[float, float]]:
        """Unix time and degrees Celsius of a unit's last looks, oldest first."""
        return list(self._temperatures.get(name, ()))

    def _remember(self, reports: Sequence[UnitReport], now: float) -> None:
        for report in reports:
            if report.device.temperature_c is not None:
                readings = self._temperatures.setdefault(report.unit.name, deque(maxlen=REMEMBERED_LOOKS))
                readings.append((now, report.device.temperature_c))


def _last_look(before: Snapshot) -> Look:
    host_of = {name: unit.host for name, unit in before.units.items() if unit.host}
    return Look([unit.report for unit in before.units.values()], before.hosts, host_of)


def _merged(before: Snapshot, seen: Look, version: int) -> dict[str, WatchedUnit]:
    """The units of a look; one that says what it said before keeps its version."""
    merged: dict[str, WatchedUnit] = {}
    for now in seen.reports:
        known = before.units.get(now.unit.name)
        report = _with_last_readings(now, known.report) if known else now
        name, host = report.unit.name, seen.host_of.get(report.unit.name, "")
        members = {**device_members(report), "host": host}
        is_same = known is not None and known.members == members
        merged[name] = known if known is not None and is_same else WatchedUnit(report, members, version, host)
    return merged


def _with_last_readings(report: UnitReport, before: UnitReport) -> UnitReport:
    """A unit on which a job runs is not asked for its sensors: what they said last still stands for it."""
    if report.state != UnitState.BUSY or report.device != NO_STATE:
        return report
    return dataclasses.replace(report, device=before.device)


RESULTS_EVERY_S = 30.0


@dataclasses.dataclass(frozen=True)
class OtherResults:
    """What other hosts had written at the last look, and why some of it is not known."""

    hosts: Mapping[str, HostResults] = dataclasses.field(default_factory=dict)
    error: str = ""

    @property
    def notes(self) -> list[str]:
        """What is left out, and why, a line each."""
        silent = [f"left out: {host}, which {each.error}" for host, each in self.hosts.items() if each.error]
        return [*([self.error] if self.error else []), *silent]


class ResultsWatcher(Watcher):
    """Looks every half minute, where there are sources."""

    def __init__(self, sources: Sequence[ResultSource] = (), every_s: float = RESULTS_EVERY_S) -> None:
        super().__init__("results", every_s)
        self.snapshot = OtherResults()
        self._sources = sources
        self._source_of: dict[str, ResultSource] = {}

    @property
    def has_others(self) -> bool:
        """Whether there are other hosts at all."""
        return bool(self._sources)

    def start(self) -> None:
        """Begins to look."""
        if self._sources:
            super().start()

    def look(self) -> OtherResults:
        """Looks once; a source that fails is named, and what it told is left out."""
        found, errors = dict[str, HostResults](), list[str]()
        for source in self._sources:
            try:
                told = source.results()
            except (FarmError, OSError) as error:
                errors.append(str(error))
                continue
            found = {**told, **found}
            self._source_of |= dict.fromkeys(told.keys() - self._source_of.keys(), source)
        self.snapshot = OtherResults(dict(sorted(found.items())), "; ".join(errors))
        return self.snapshot

    def content(self, host: str, kind: ResultKind, path: str) -> Iterator[bytes] | None:
        """The content of a host's file, piece by piece; None where it has no such file.

        Raises NoUnitError for an unknown host, another FarmError where it does not answer.
        """
        if host not in self._source_of:
            raise NoUnitError(f"no host of this name is known: {host[:100]}")
        return self._source_of[host].content(host, kind, path)


QUEUE_EVERY_S = 2.0
Task = tuple[str, str, str]  # job, unit, work


@dataclasses.dataclass(frozen=True)
class QueueWaits:
    """How long work waited for a unit, as well as looking can tell.

    Attributes:
        begun: how many tasks were seen to wait and begin, of each priority.
        seconds: how long they had waited.
        since: a task that waits -> since when (monotonic).
    """

    begun: Mapping[str, int] = dataclasses.field(default_factory=dict)
    seconds: Mapping[str, float] = dataclasses.field(default_factory=dict)
    since: Mapping[Task, float] = dataclasses.field(default_factory=dict)

    def after(self, jobs: Iterable[JobReport], now_s: float) -> QueueWaits:
        """The same after a look; a task that is gone without having been seen to run is not counted."""
        begun, seconds, since = dict(self.begun), dict(self.seconds), {}
        for job in jobs:
            priority = job.name.priority
            for each in job.tasks:
                task = (job.name.id, each.unit, each.work)
                if each.state == "waiting":
                    since[task] = self.since.get(task, now_s)
                elif task in self.since:
                    begun[priority] = begun.get(priority, 0) + 1
                    seconds[priority] = seconds.get(priority, 0.0) + now_s - self.since[task]
        return QueueWaits(begun, seconds, since)

    def longest_s(self, now_s: float) -> float:
        """How long the oldest task that waits has waited."""
        return now_s - min(self.since.values(), default=now_s)


@dataclasses.dataclass(frozen=True)
class QueueSnapshot:
    """The queue after a look; `version` counts its changes, `error` says why the last look failed."""

    version: int = 0
    jobs: Sequence[JobReport] = ()
    waits: QueueWaits = QueueWaits()
    error: str = ""


class QueueWatcher(Watcher):
    """Looks every two seconds, where there is a queue."""

    def __init__(self, source: UnitSource, every_s: float = QUEUE_EVERY_S) -> None:
        super().__init__("queue", every_s)
        self.snapshot = QueueSnapshot()
        self._source = source

    def start(self) -> None:
        """Begins to look."""
        if self._source.has_queue:
            super().start()

    def look(self) -> QueueSnapshot:
        """Looks once; of a queue that cannot be seen nothing is shown."""
        jobs: Sequence[JobReport] = ()
        before, error = self.snapshot, ""
        try:
            jobs = self._source.jobs()
        except FarmError as failure:
            error = str(failure)
        waits = before.waits if error else before.waits.after(jobs, time.monotonic())
        is_same = (list(before.jobs), before.error) == (list(jobs), error)
        self.snapshot = QueueSnapshot(before.version + (not is_same), jobs, waits, error)
        return self.snapshot
