"""A command's connection to a cluster: which units there are, files to hosts and back, work on a unit."""

import contextlib
import dataclasses
import json
import random
import secrets
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from distributed import Client, Future, KilledWorker
from distributed.client import ClosedClientError, FutureCancelledError

from farm.cluster import connection, file_parts, host_tasks, queue
from farm.cluster.address import ClusterAddress
from farm.cluster.host_files import PART_BYTES
from farm.cluster.queue import JobName
from farm.config.inventory import Unit
from farm.units.survey import UnitReport
from runtime.errors import NO_ROOM, DeviceLostError, FarmError, NoRoomError

SMALL_BYTES, AT_ONCE = 2**16, 2**6  # files of up to this size travel together, so many: as much as a part
ANSWER_S = 120.0
WATCH_S = 1.0  # how long nothing may be heard of the scheduler before it is asked
TOGETHER_S = 0.1  # units that come or go within this time are asked for together
SCHEDULER_LOST = (FutureCancelledError, ClosedClientError)
UNANSWERED = (OSError, TimeoutError, KilledWorker)


EventHandler = Callable[[dict[str, Any]], None]


class SchedulerLostError(DeviceLostError):
    """The scheduler has gone, or been started anew, before there was an answer: no fault of unit or host."""


class HostFullError(DeviceLostError):
    """A host's disk is full: until there is room on it, its units are as good as lost."""


class JobCancelled(Exception):
    """Somebody ended this job with `farm jobs cancel`; no FarmError, so that no unit's job is tried again after it."""


@dataclasses.dataclass(frozen=True)
class HostReport:
    """A host and what it says of its units, by their names in the cluster; `error`: why it says nothing."""

    name: str
    units: tuple[UnitReport, ...] = ()
    error: str = ""


class ClusterSession:
    """A job's place in the cluster; made by `joined`. A scheduler that goes away is waited for.

    Args:
        connect: makes a client; raises a FarmError where no scheduler answers.
        address: the scheduler's.
        job: whose place it is.
    """

    def __init__(self, connect: Callable[[], Client], address: ClusterAddress, job: JobName) -> None:
        self._connect, self.address, self.job = connect, address, job
        self.cancelled_by = ""
        self._on_event: EventHandler = lambda event: None
        self._uploads: dict[str, threading.Lock] = {}
        self._uploads_lock = threading.Lock()
        self._offered: dict[str, str] = {}
        self._full: set[str] = set()
        self._wakes: set[Callable[[], None]] = set()
        self._is_lost = False
        self._ended, self._units_changed = threading.Event(), threading.Event()
        self._join()
        threading.Thread(target=self._keep_watching, name="cluster", daemon=True).start()

    def close(self) -> None:
        """Leaves; what it still wants done is dropped."""
        self._ended.set()
        self._units_changed.set()
        self._client.close(timeout=2)

    def show_events(self, handler: EventHandler) -> None:
        """Has the progress of this job's tasks handled."""
        self._on_event = handler

    def reports(self) -> list[HostReport]:
        """What each host says of its units, all asked at once."""
        asked = {host: self._on_host(host, host_tasks.describe) for host in self._offers()["hosts"]}
        return [_host_report(host, future) for host, future in sorted(asked.items())]

    def host_of(self, unit: str) -> str | None:
        """The host that offers a unit now; None where none does."""
        return self._offered.get(unit)

    def submit(
        self,
        host: str,
        unit: str,
        work: str,
        arguments: Iterable[str],
        files: Mapping[str, str],
        leaves: bool = False,
    ) -> Future[Any]:
        """Has a command line run on a unit of a host, as soon as it is its turn; raises SchedulerLostError.

        `leaves`: what it leaves in build/ is wanted.
        """
        asked = {"unit": unit, "arguments": list(arguments), "files": dict(files), "leaves": leaves}
        request = {"job": self.job.id, **asked}
        try:
            return self._client.submit(
                host_tasks.perform,
                json.dumps(request),
                key=queue.task_key(self.job.id, unit, work),
                resources={f"unit:{unit}": 1, f"at:{host}": 1},
                priority=queue.PRIORITIES[self.job.priority],
                retries=0,
                pure=False,
            )
        except SCHEDULER_LOST:
            raise self.scheduler_lost() from None

    @contextlib.contextmanager
    def waking(self, wake: Callable[[], None]) -> Iterator[None]:
        """Has a function called whenever units come or go, the scheduler goes, or the job is cancelled."""
        self._wakes.add(wake)
        try:
            yield
        finally:
            self._wakes.discard(wake)

    @property
    def is_lost(self) -> bool:
        """Whether the scheduler is away."""
        return self._is_lost

    def scheduler_lost(self) -> SchedulerLostError:
        """Has the scheduler waited for, and no unit offered until it is back; the error that says so."""
        self._is_lost, self._offered = True, {}
        self._wake()
        return SchedulerLostError(f"{self.address}: the scheduler has gone")

    def full(self, host: str, reason: str) -> HostFullError:
        """Remembers that a host's disk is full; the error that says so."""
        self._full.add(host)
        return HostFullError(f"{host}: its disk takes no files: {reason}")

    def check_room(self, host: str) -> None:
        """Raises HostFullError while a host that had no room for files still has none."""
        if host in self._full:
            self._answer(host, host_tasks.probe_room)
            self._full.discard(host)

    def send_files(self, host: str, files: Iterable[tuple[str, Path]]) -> None:
        """Brings files (hash, path) to a host, those that it does not have; each once, whoever asks for it."""
        wanted = dict(files)
        if not wanted:
            return
        with contextlib.ExitStack() as held:
            for digest in sorted(wanted):  # in one order, so that no two threads wait for each other
                held.enter_context(self._upload_lock(host, digest))
            missing = self._answer(host, host_tasks.missing_files, list(wanted))
            small = [digest for digest in missing if wanted[digest].stat().st_size <= SMALL_BYTES]
            for start in range(0, len(small), AT_ONCE):
                batch = small[start : start + AT_ONCE]
                self._answer(host, host_tasks.receive_files, [(each, wanted[each].read_bytes()) for each in batch])
            for digest in set(missing) - set(small):
                self._send(host, digest, wanted[digest])

    def fetch_files(self, host: str, files: Mapping[str, str], folder: Path) -> None:
        """Brings files that a job made (path -> hash) into a folder here."""
        file_parts.fetch_files(self._answer, host, files, folder)

    def send_off(self, units: Sequence[str], request: bytes, files: Mapping[str, Path]) -> str:
        """Has a host that offers one of the units do a whole command by itself (DetachedJobs.begin); its name.

        Where a disk is full another host is asked. `files`: hash -> path.
        """
        hosts = [host for host in map(self.host_of, units) if host]
        problem = self.scheduler_lost() if self.is_lost else DeviceLostError("no host offers these units any more")
        for host in random.sample(sorted(set(hosts)), len(set(hosts))):
            try:
                self.send_files(host, files.items())
                self._answer(host, host_tasks.begin, request)
            except HostFullError as error:
                problem = error
            else:
                return host
        raise problem

    def _send(self, host: str, digest: str, path: Path) -> None:
        upload = secrets.token_hex(8)
        with path.open("rb") as file:
            part = file.read(PART_BYTES)
            while True:
                following = file.read(PART_BYTES)
                self._answer(host, host_tasks.receive_part, digest, upload, part, not following)
                if not following:
                    return
                part = following

    def _upload_lock(self, host: str, digest: str) -> threading.Lock:
        with self._uploads_lock:
            return self._uploads.setdefault(f"{host} {digest}", threading.Lock())

    def _on_host(self, host: str, function: Callable[..., Any], *arguments: Any) -> Future[Any]:
        try:
            return connection.ask_host(self._client, self.job.id, host, function, *arguments)
        except SCHEDULER_LOST:
            raise self.scheduler_lost() from None

    def _answer(self, host: str, function: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return self._on_host(host, function, *arguments).result(ANSWER_S)
        except SCHEDULER_LOST:
            raise self.scheduler_lost() from None
        except NoRoomError as error:
            raise self.full(host, str(error)) from None
        except UNANSWERED as error:
            raise self._host_error(host, error) from None

    def _host_error(self, host: str, error: BaseException) -> DeviceLostError:
        """What a host could not do: that it does not answer, or that it has no room."""
        if isinstance(error, OSError) and error.errno in NO_ROOM:
            return self.full(host, str(error.strerror))
        return DeviceLostError(f"{host}: does not answer: {str(error) or type(error).__name__}")

    def _offers(self) -> Mapping[str, Any]:
        """Which hosts there are, and which of them offers each unit."""
        offers: Mapping[str, Any] = self._client.run_on_scheduler(queue.offers_on_scheduler)
        return offers

    def _keep_watching(self) -> None:
        """Knows which units are offered: none while the scheduler is away."""
        while not self._ended.wait(TOGETHER_S):
            self._units_changed.wait(WATCH_S)
            self._units_changed.clear()
            if self._ended.is_set():
                return
            try:
                self._watch()
            except Exception:  # Dask raises several that all mean that the scheduler does not answer
                self.scheduler_lost()

    def _watch(self) -> None:
        if self._is_lost:
            self._client.close(timeout=2)
            self._join()
        before, self._offered = self._offered, self._offers()["units"]
        if self._offered != before:
            self._wake()

    def _wake(self) -> None:
        for wake in tuple(self._wakes):
            wake()

    def _join(self) -> None:
        """Becomes a client of the scheduler; raises a FarmError where none answers."""
        self._client = self._connect()
        self._client.subscribe_topic(self.job.id, self._receive)
        self._client.subscribe_topic(queue.OFFERS, lambda event: self._units_changed.set())
        self._offered, self._is_lost = self._offers()["units"], False

    def _receive(self, event: tuple[float, Any]) -> None:
        """An event of this job's topic; is called in the client's thread."""
        _, message = event
        if message.get("event") == queue.CANCEL:
            self.cancelled_by = str(message.get("by", "somebody"))
            self._wake()
        else:
            self._on_event(message)


@contextlib.contextmanager
def joined(address: ClusterAddress, folder: Path | None, command: str, priority: str) -> Iterator[ClusterSession]:
    """A place in the cluster for a command, until the block ends."""
    job = queue.new_job(command, priority)
    cluster = ClusterSession(lambda: connection.connect_client(address, folder, job.text), address, job)
    try:
        yield cluster
    finally:
        cluster.close()


def _host_report(host: str, future: Future[Any]) -> HostReport:
    try:
        reports = host_tasks.REPORTS.validate_json(future.result(ANSWER_S))
    except (*SCHEDULER_LOST, *UNANSWERED, FarmError, ValueError) as error:
        return HostReport(host, error=str(error) or type(error).__name__)
    return HostReport(host, tuple(dataclasses.replace(report, unit=_renamed(report.unit, host)) for report in reports))


def _renamed(unit: Unit, host: str) -> Unit:
    return dataclasses.replace(unit, name=host_tasks.cluster_name(unit, host))
