"""Looks at a cluster's queue again and again in a thread, and adds up how long work has waited."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterable, Mapping, Sequence

from farm.cluster.queue import JobReport
from farm.serve.source import UnitSource
from farm.serve.watcher import Watcher
from runtime.errors import FarmError

EVERY_S = 2.0
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

    def __init__(self, source: UnitSource, every_s: float = EVERY_S) -> None:
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
