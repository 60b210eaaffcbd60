"""Jobs on many units at once: a thread a unit, each opened once, every outcome handed to the caller as it comes.

An executor says what opening a unit means: by default it is connected to from here, and with --cluster reached through
the host that offers it (farm/cluster/remote_units.py).

A unit that is lost is waited for and opened again; the job that it was at is done again, there or on another unit that
may do it, as often as `retries` allows. A unit that cannot be opened fails the jobs that only it could do.
"""

import dataclasses
import math
import queue
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Generic, Protocol, TypeVar

from farm.config.inventory import Unit
from farm.jobs.fleet.opening import open_unit
from farm.jobs.fleet.progress import SILENT, ProgressView, UnitProgress
from farm.jobs.fleet.schedule import Schedule, UnitTask
from farm.jobs.fleet.unit import OpenUnit
from farm.rows.status import Status, status_of
from farm.transport.interruption import Interruption
from farm.units import health
from runtime.errors import (
    LACKS,
    ConfigError,
    DeviceError,
    DeviceLostError,
    FarmError,
    JobError,
    ProcessEndedError,
    ProcessKilledError,
    farm_error,
)

Outcome = TypeVar("Outcome")

POLL_S = 1.0
MOST_POLLS = 16  # between two looks at a unit that refuses: a board may shut out who fails to log in again and again
SKIPPED = "not begun: another job failed, and --fail-fast was given"
END_S = 1.5  # for all units together to be left tidy after an interruption


@dataclasses.dataclass(frozen=True)
class FleetOptions:
    """How jobs are spread over units.

    Attributes:
        purpose: what the units are wanted for, shown to others who want them.
        opencl: an OpenCL library, its origin, or None for the best.
        wait_s: how long to wait for a unit that somebody else holds.
        retries: how often a job is done again when its unit was lost, or farmrt killed.
        return_s: how long a lost unit is waited for.
        fail_fast: after the first failure nothing new is begun.
        spread: a job may be done by whichever unit of its SoC is free, instead of by each.
        round_limit_s: how long a round may go without progress before its unit counts as hanging; None: what the
            deployment file says, else by the model's work.
        environment: variables of the farmrt that a unit is opened with; others that run there beside it have their own.
    """

    purpose: str = "farm"
    opencl: str | None = None
    wait_s: float = 60.0
    retries: int = 1
    return_s: float = 60.0
    fail_fast: bool = False
    spread: bool = False
    round_limit_s: float | None = None
    environment: Mapping[str, str] = dataclasses.field(default_factory=dict)


FLEET = FleetOptions()


class UnitAtWork(Protocol):
    """What the fleet asks of a unit that is open; jobs know more of it."""

    def answers(self) -> bool:
        """Asks whether the unit still answers after its farmrt was killed."""

    def note_job(self, status: Status, reason: str) -> None:
        """Remembers how a job ended, for the unit's health."""


Opened = TypeVar("Opened", bound=UnitAtWork)
OpenedUnit = TypeVar("OpenedUnit", bound=UnitAtWork, covariant=True)


class UnitExecutor(Protocol[OpenedUnit]):
    """How the fleet comes to its units."""

    def open(
        self, unit: Unit, options: FleetOptions, progress: UnitProgress, interruption: Interruption
    ) -> AbstractContextManager[OpenedUnit]:
        """The unit, ready to work."""

    def note_failure(self, unit: Unit, error: FarmError) -> None:
        """Remembers that a unit could not be opened, or was lost."""


class LocalExecutor:
    """Units that this process connects to."""

    def open(
        self, unit: Unit, options: FleetOptions, progress: UnitProgress, interruption: Interruption
    ) -> AbstractContextManager[OpenUnit]:
        """The unit with farmrt on it, its lease held."""
        limit_s, environment = options.round_limit_s, options.environment
        return open_unit(
            unit, options.opencl, progress, options.purpose, options.wait_s, interruption, limit_s, environment
        )

    def note_failure(self, unit: Unit, error: FarmError) -> None:
        """Counts for the unit's health."""
        health.HealthRecords().record_job(unit, status_of(error), str(error))


LOCAL = LocalExecutor()


@dataclasses.dataclass(frozen=True, eq=False)
class Job(Generic[Outcome, Opened]):
    """Something to do on a unit.

    Attributes:
        units: who may do it.
        run: does it; raises a FarmError when the unit is gone. What it gave out before is kept.
        good: whether an outcome is that of a job that went well.
        failed: the outcome on a unit that could not do it.
        cost: how long it takes, in any measure that all jobs share.
    """

    units: Sequence[Unit]
    run: Callable[[Opened], Iterator[Outcome]]
    good: Callable[[Outcome], bool]
    failed: Callable[[Unit, FarmError], Outcome]
    cost: float = 1.0


class SkippedJob(FarmError):
    """A job was not begun."""


def run_jobs(
    jobs: Sequence[Job[Outcome, OpenUnit]], options: FleetOptions, progress: ProgressView = SILENT
) -> Iterator[Outcome]:
    """The outcome of every job, as soon as it is there; raises a ConfigError at once, which is the user's."""
    yield from run_jobs_by(LOCAL, jobs, options, progress)


def run_jobs_by(
    executor: UnitExecutor[Opened], jobs: Sequence[Job[Outcome, Opened]], options: FleetOptions, progress: ProgressView
) -> Iterator[Outcome]:
    """Runs jobs as `run_jobs` does, with an executor that connects to the units, such as a cluster's."""
    fleet = _Fleet(jobs, options, progress, executor)
    try:
        fleet.start()
        yield from fleet.outcomes()
    finally:
        fleet.end()


class _Fleet(Generic[Outcome, Opened]):
    def __init__(
        self,
        jobs: Sequence[Job[Outcome, Opened]],
        options: FleetOptions,
        progress: ProgressView,
        executor: UnitExecutor[Opened],
    ) -> None:
        self.units = list(dict.fromkeys(unit for job in jobs for unit in job.units))
        self._options, self._progress, self._executor = options, progress, executor
        self._schedule = Schedule([UnitTask(job, [unit.name for unit in job.units], job.cost) for job in jobs])
        self._attempts: dict[UnitTask[Job[Outcome, Opened]], int] = {}
        self._changed = threading.Condition()
        self._results: queue.Queue[Outcome | BaseException | None] = queue.Queue()
        self._interruptions = {unit.name: Interruption() for unit in self.units}
        self._threads = [threading.Thread(target=self._work, args=(unit,), daemon=True) for unit in self.units]
        self.stopping = False

    def start(self) -> None:
        for unit, thread in zip(self.units, self._threads, strict=True):
            try:
                thread.start()
            except RuntimeError as error:
                self.give_up(unit, farm_error(error))
                self._results.put(None)

    def outcomes(self) -> Iterator[Outcome]:
        """Until all threads have said that they ended."""
        ended = 0
        while ended < len(self._threads):
            outcome = self._results.get()
            if outcome is None:
                ended += 1
            elif isinstance(outcome, BaseException):
                raise outcome
            else:
                yield outcome

    def end(self) -> None:
        """Lets no thread go on: each ends its farmrt and its lease, unless its unit does not answer in time.

        What such a unit is left with ends by itself: farmrt with its input, the lease at its expiry.
        """
        with self._changed:
            self.stopping = True
            self._schedule.stop()
            self._changed.notify_all()
        for interruption in self._interruptions.values():
            interruption.ask()
        deadline_s = time.monotonic() + END_S
        for thread in filter(threading.Thread.is_alive, self._threads):
            thread.join(max(0.0, deadline_s - time.monotonic()))

    def _work(self, unit: Unit) -> None:
        """A unit's thread."""
        try:
            _Worker(self, unit, UnitProgress(unit.name, self._progress), self._options).work()
        except BaseException as error:  # is raised again where the outcomes are taken
            if not self.stopping:
                self._results.put(error)
        finally:
            self._results.put(None)

    def wait_for_work(self, unit: Unit) -> bool:
        """Waits for a job that a unit may do; False when none can come."""
        with self._changed:
            while not self._schedule.has(unit.name):
                if self.stopping or not self._schedule.may_have(unit.name):
                    return False
                self._changed.wait()
            return True

    def take(self, unit: Unit) -> UnitTask[Job[Outcome, Opened]] | None:
        """The next job of a unit."""
        with self._changed:
            return self._schedule.take(unit.name)

    def publish(self, job: Job[Outcome, Opened], outcome: Outcome) -> None:
        """An outcome; after one of a job that failed nothing new may be begun."""
        self._results.put(outcome)
        if self._options.fail_fast and not job.good(outcome):
            with self._changed:
                skipped = self._schedule.stop()
            for task in skipped:
                self._results.put(task.work.failed(task.work.units[0], SkippedJob(SKIPPED)))

    def finish(self, task: UnitTask[Job[Outcome, Opened]]) -> None:
        """A job has ended."""
        with self._changed:
            self._schedule.done(task)
            self._changed.notify_all()

    def put_back(self, task: UnitTask[Job[Outcome, Opened]]) -> bool:
        """Lets a job whose unit was lost be done again, unless that happened too often."""
        with self._changed:
            self._attempts[task] = self._attempts.get(task, 0) + 1
            if self._attempts[task] > self._options.retries or self.stopping:
                return False
            self._schedule.put_back(task)
            self._changed.notify_all()
            return True

    def give_up(self, unit: Unit, error: FarmError) -> None:
        """A unit is gone for good: so are the jobs that only it could do."""
        with self._changed:
            orphans = self._schedule.drop(unit.name)
            self._changed.notify_all()
        for task in orphans:
            self._results.put(task.work.failed(unit, error))

    def opened(self, unit: Unit, progress: UnitProgress) -> AbstractContextManager[Opened]:
        """The unit, ready to work."""
        return self._executor.open(unit, self._options, progress, self._interruptions[unit.name])

    def note_failure(self, unit: Unit, error: FarmError) -> None:
        """Remembers that a unit could not be opened, or was lost."""
        self._executor.note_failure(unit, error)

    def pause(self, unit: Unit, polls: int) -> None:
        """Waits a while in a unit's thread."""
        self._interruptions[unit.name].sleep(POLL_S * polls)


class _Worker(Generic[Outcome, Opened]):
    """What a unit's thread does."""

    def __init__(
        self, fleet: _Fleet[Outcome, Opened], unit: Unit, progress: UnitProgress, options: FleetOptions
    ) -> None:
        self._fleet, self._unit, self._progress, self._options = fleet, unit, progress, options
        self._was_open = False
        self._lost_s = math.inf  # since when the unit cannot be reached
        self._loss: FarmError | None = None  # why
        self._told: FarmError | None = None  # the last loss that was told
        self._refusals = 0  # since then

    def work(self) -> None:
        """Does jobs until there can be no more, or the unit does not come back."""
        while self._fleet.wait_for_work(self._unit):
            try:
                with self._fleet.opened(self._unit, self._progress) as opened:
                    self._was_open, self._lost_s, self._refusals = True, math.inf, 0
                    self._serve(opened)
            except ConfigError:
                raise
            except (FarmError, *LACKS) as raised:
                error = farm_error(raised)
                if math.isinf(self._lost_s):  # a unit that is away is one failure, however often it is asked for
                    self._fleet.note_failure(self._unit, error)
                elif isinstance(error, DeviceError) and error.kind == health.QUARANTINED:  # which this loss began
                    error, self._lost_s = self._loss or error, -math.inf
                self._loss = error
                if not self._may_return(error):
                    self._fleet.give_up(self._unit, error)
                    self._progress.ended(str(error))
                    return
        self._progress.ended("done")

    def _serve(self, opened: Opened) -> None:
        """Jobs, as long as there are some and the unit is there."""
        while task := self._fleet.take(self._unit):
            try:
                for outcome in task.work.run(opened):
                    self._fleet.publish(task.work, outcome)
            except (FarmError, *LACKS) as raised:
                error = farm_error(raised)
                again = not isinstance(error, ConfigError) and self._fleet.put_back(task)
                if not again:
                    self._fleet.publish(task.work, task.work.failed(self._unit, error))
                    self._fleet.finish(task)
                if not (isinstance(error, ProcessKilledError) and opened.answers()):
                    if again and _is_lost(error):
                        self._tell_lost(error)
                    raise
                opened.note_job(status_of(error), str(error))
                if again:
                    self._progress.stage(f"tried again: {error}")
            else:
                self._fleet.finish(task)

    def _may_return(self, error: FarmError) -> bool:
        """Decides whether to wait for a lost unit: only where it was there before, and for a limited time."""
        was_there = self._was_open or (self._progress.reached and self._options.retries > 0 and _is_lost(error))
        now_s = time.monotonic()
        self._lost_s = min(self._lost_s, now_s)
        if not was_there or self._fleet.stopping or now_s - self._lost_s > self._options.return_s:
            return False
        if error is not self._told:
            self._tell_lost(error)
        self._refusals += isinstance(error, DeviceError)
        self._fleet.pause(self._unit, min(2**self._refusals, MOST_POLLS))
        return True

    def _tell_lost(self, error: FarmError) -> None:
        self._told = error
        what = "lost, waiting for it" if isinstance(error, JobError) else "tried again"
        self._progress.waiting(f"{what} ({self._options.return_s:.0f} s at most): {error}")


def _is_lost(error: FarmError) -> bool:
    return isinstance(error, DeviceLostError) and not isinstance(error, ProcessEndedError)
