"""Units of other hosts, as the fleet opens them: what runs there is a command line, what comes back its document."""

import contextlib
import dataclasses
import json
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from distributed import Future, KilledWorker

from farm.cluster.client import SCHEDULER_LOST, ClusterSession, JobCancelled, SchedulerLostError
from farm.cluster.job_files import JobFiles
from farm.config.inventory import Unit
from farm.jobs.fleet.dispatch import FleetOptions, Job, run_jobs_by
from farm.jobs.fleet.progress import ProgressView, UnitProgress
from farm.rows.status import Status
from farm.transport.interruption import Interruption, WaitInterrupted
from runtime.errors import ConfigError, DeviceLostError, FarmError, FormatError, JobError, ModelError

WAIT_S = 1.0  # what is waited for wakes the waiting, which looks by itself only for what a host notes meanwhile
Outcome = TypeVar("Outcome")
ReceiveFiles = Callable[[Path], None]
SCHEDULER_LOSSES = 3  # of one job's; a further one is as good as a unit that is lost
USERS_MISTAKES = {"config": ConfigError, "model": ModelError, "unsupported": ModelError, "format": FormatError}


@dataclasses.dataclass(frozen=True)
class RemoteCommand:
    """A command line for a unit of another host, without `farm`, and its files.

    `output_folder` is where files come that the command writes where an argument is `outputs`; None: there are none.
    `receive` is given a folder with what the command left below build/ (host_files.LEFT); None: it leaves nothing.
    `meanwhile` is called now and then while the answer is waited for.
    """

    arguments: tuple[str, ...]
    files: JobFiles
    output_folder: Path | None = None
    receive: ReceiveFiles | None = None
    meanwhile: Callable[[], None] = lambda: None


@dataclasses.dataclass(frozen=True)
class RemoteUnit:
    """A unit that a host offers."""

    unit: Unit
    cluster: ClusterSession
    progress: UnitProgress
    interruption: Interruption
    return_s: float

    def answers(self) -> bool:
        """Whether the unit is still offered."""
        return self.cluster.host_of(self.unit.name) is not None

    def note_job(self, status: Status, reason: str) -> None:
        """Nothing: the host remembers for itself."""

    def run(self, work: str, command: Callable[[], RemoteCommand]) -> Mapping[str, Any]:
        """Runs a command on the unit when it is its turn, made anew each time that it begins; the document it prints.

        Raises:
            DeviceLostError: the unit or its host has gone.
            ConfigError, ModelError: the command is wrong, wherever it runs.
            JobError: the host could not do it.
        """
        for _ in range(SCHEDULER_LOSSES):
            with contextlib.suppress(SchedulerLostError):
                return self._run_once(work, command())
            self._wait_for_return()
        return self._run_once(work, command())

    def _run_once(self, work: str, command: RemoteCommand) -> Mapping[str, Any]:
        """See run; raises SchedulerLostError too."""
        host = self._host()
        self.progress.stage(f"{work}: files to {host}")
        self.cluster.send_files(host, command.files.sources.items())
        self.progress.stage(f"{work}: in the queue of {host}")
        hashes, leaves = command.files.hashes, command.receive is not None
        future = self.cluster.submit(host, self.unit.name, work, command.arguments, hashes, leaves)
        answer = self._answer(future, host, command.meanwhile)
        if "no_room" in answer:
            raise self.cluster.full(host, answer["no_room"])
        if "error" in answer:
            raise JobError(f"{self.unit.name}: {answer['error']}")
        if command.output_folder:
            self.cluster.fetch_files(host, answer["files"], command.output_folder)
        if command.receive:
            self._receive(host, answer["left"], command.receive)
        return self._checked(answer["document"])

    def _receive(self, host: str, left: Mapping[str, str], receive: ReceiveFiles) -> None:
        """Brings what the command left here, and has it taken."""
        with tempfile.TemporaryDirectory(prefix="farm-cluster-") as folder:
            self.cluster.fetch_files(host, left, Path(folder))
            receive(Path(folder))

    def _wait_for_return(self) -> None:
        """Until the scheduler is back, and a host offers the unit again; raises DeviceLostError after too long."""
        self.progress.stage("lost the scheduler, waiting for it")
        deadline_s = time.monotonic() + self.return_s
        while self.cluster.host_of(self.unit.name) is None:
            self.interruption.sleep(WAIT_S)
            if time.monotonic() > deadline_s:
                raise DeviceLostError(f"{self.unit.name}: the scheduler has gone, and no host offers it again")

    def _host(self) -> str:
        return _host_of(self.cluster, self.unit, "no host offers it any more")

    def _answer(self, future: Future[str], host: str, meanwhile: Callable[[], None]) -> dict[str, Any]:
        """Waits for what a host answers, as long as it offers the unit."""
        wake = self.interruption.wake
        future.add_done_callback(lambda _: wake())
        try:
            with self.cluster.waking(wake):
                while not future.done():
                    self._check_offered(host)
                    self.interruption.sleep(WAIT_S)
                    meanwhile()
            answer = json.loads(future.result())
        except SCHEDULER_LOST:
            raise self.cluster.scheduler_lost() from None
        except KilledWorker:
            raise DeviceLostError(f"{self.unit.name}: {host} has died") from None
        except (WaitInterrupted, JobCancelled, DeviceLostError):
            future.cancel()
            raise
        assert isinstance(answer, dict)
        return answer

    def _check_offered(self, host: str) -> None:
        """Raises JobCancelled or DeviceLostError where the answer need not be waited for."""
        if self.cluster.cancelled_by:
            raise JobCancelled(self.cluster.cancelled_by)
        if self.cluster.host_of(self.unit.name) != host:
            raise self._lost(host)

    def _lost(self, host: str) -> DeviceLostError:
        """Why a unit is not offered any more: without the scheduler none is, which is no fault of the unit."""
        if self.cluster.is_lost:
            return self.cluster.scheduler_lost()
        return DeviceLostError(f"{self.unit.name}: {host} does not offer it any more")

    def _checked(self, document: Mapping[str, Any]) -> Mapping[str, Any]:
        """A document of rows; raises what the command ended with instead."""
        problem = document["error"]
        if problem is None:
            return document
        if problem["kind"] == "no_unit":
            raise DeviceLostError(f"{self.unit.name}: its host has lost it: {problem['message']}")
        kind: type[FarmError] = USERS_MISTAKES.get(problem["kind"], JobError)
        raise kind(problem["message"])


@dataclasses.dataclass(frozen=True)
class ClusterExecutor:
    """Reaches units through the hosts that offer them."""

    cluster: ClusterSession

    @contextlib.contextmanager
    def open(
        self, unit: Unit, options: FleetOptions, progress: UnitProgress, interruption: Interruption
    ) -> Iterator[RemoteUnit]:
        """The unit, if a host offers it; its lease is taken there, job by job."""
        self.cluster.check_room(_host_of(self.cluster, unit, "no host offers it"))
        progress.reached = True
        yield RemoteUnit(unit, self.cluster, progress, interruption, options.return_s)

    def note_failure(self, unit: Unit, error: FarmError) -> None:
        """Nothing: the host remembers for itself."""


def run_on_hosts(
    cluster: ClusterSession,
    jobs: Sequence[Job[Outcome, RemoteUnit]],
    fleet: FleetOptions,
    progress: ProgressView,
) -> Iterator[Outcome]:
    """See run_jobs; raises JobError where somebody cancels the job."""
    try:
        yield from run_jobs_by(ClusterExecutor(cluster), jobs, fleet, progress)
    except JobCancelled as cancelled:
        raise JobError(f"{cancelled} ended this job (`farm jobs cancel {cluster.job.id}`)") from None


def _host_of(cluster: ClusterSession, unit: Unit, without: str) -> str:
    """The host that offers a unit; raises DeviceLostError, which names the scheduler where that is gone."""
    if host := cluster.host_of(unit.name):
        return host
    raise cluster.scheduler_lost() if cluster.is_lost else DeviceLostError(f"{unit.name}: {without}")
