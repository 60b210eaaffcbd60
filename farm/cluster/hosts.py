"""The hosts of a cluster as people ask them: what units each has, who shall have one, and what jobs run and wait."""

import contextlib
import dataclasses
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from distributed import Client, Future

from farm.cluster import connection, host_tasks, queue, result_tasks, unit_tasks
from farm.cluster.address import ClusterAddress
from farm.cluster.client import ANSWER_S, SCHEDULER_LOST, UNANSWERED
from farm.cluster.queue import JobName, JobReport, KeptJob
from farm.cluster.result_tasks import HostResults, Part, ResultKind
from farm.cluster.unit_tasks import SeenUnit
from farm.units.health import CheckResult
from runtime.errors import FarmError, JobError, NoUnitError

LOOK_S = 45.0  # units have 20 s to answer their host
NAME = "farm hosts"  # as a client: it is no job
NO_ANSWER = (*SCHEDULER_LOST, *UNANSWERED, RuntimeError)  # what Dask raises where the scheduler has gone


@dataclasses.dataclass(frozen=True)
class HostLook:
    """A host and its units; `error`: why it says nothing of them."""

    host: str
    units: tuple[SeenUnit, ...] = ()
    error: str = ""


class Hosts:
    """A connection to a cluster that is no job of it; made by `connected`. All methods may take seconds.

    Where the scheduler has gone they raise one of NO_ANSWER.
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        self._looks: dict[str, Future[bytes]] = {}

    @property
    def is_open(self) -> bool:
        """Whether the scheduler was there at last."""
        return self._client.status == "running"

    def close(self) -> None:
        """Leaves."""
        self._client.close(timeout=2)

    def names(self) -> list[str]:
        """The hosts that are there."""
        offers: Mapping[str, Any] = self._client.run_on_scheduler(queue.offers_on_scheduler)
        return sorted(offers["hosts"])

    def look(self, deadline_s: float = LOOK_S) -> list[HostLook]:
        """Asks all hosts at once; one that has not yet answered to the last look is waited for, not asked again."""
        names = self.names()
        asked = {host: self._looks.get(host) or self._ask(host, unit_tasks.look) for host in names}
        end_s = time.monotonic() + deadline_s
        looks = [_look_of(host, future, end_s, deadline_s) for host, future in asked.items()]
        self._looks = {host: future for host, future in asked.items() if future.status == "pending"}
        return looks

    def reserve(self, unit: str, duration_s: float, reason: str, person: str, force: bool, host: str = "") -> str:
        """Takes a unit off for a person, through its host, which is found where it is not named; a line for people."""
        return str(self._change(host, unit, unit_tasks.reserve, duration_s, reason, person, force)["text"])

    def release(self, unit: str, person: str, force: bool, host: str = "") -> str:
        """Ends a person's reservation, or by force any lease; a line for people."""
        return str(self._change(host, unit, unit_tasks.release, person, force)["text"])

    def check(self, unit: str, host: str = "") -> tuple[list[CheckResult], str]:
        """Checks a unit; the points of the check, and the line of the quarantine that it is in then."""
        answer = self._change(host, unit, unit_tasks.check)
        return [CheckResult(**point) for point in answer["points"]], str(answer["text"])

    def jobs(self) -> list[JobReport]:
        """All jobs that run and wait, the oldest first."""
        return queue.parse_jobs(self._client.run_on_scheduler(queue.jobs_on_scheduler))

    def kept_jobs(self) -> tuple[list[tuple[JobName, KeptJob]], dict[str, str]]:
        """The jobs that go on without their clients, and those that did; and a line for each host that is silent."""
        kept: list[tuple[JobName, KeptJob]] = []
        silent: dict[str, str] = {}
        for host, future in self._ask_all(host_tasks.kept).items():
            try:
                kept += host_tasks.KEPT.validate_json(_result(host, future, LOOK_S))
            except JobError as error:
                silent[host] = str(error)
        return kept, silent

    def ask(self, host: str, function: Callable[..., Any], *arguments: Any) -> Any:
        """What a host answers to a question that does not name it; raises JobError where it does not answer."""
        return _result(host, connection.ask_host(self._client, NAME, host, function, *arguments), ANSWER_S)

    def cancel(self, job: str, person: str) -> None:
        """Asks the client of a job to end it; raises ConfigError where there is no such job."""
        queue.named_job(self.jobs(), job)
        self._client.log_event(job, {"event": queue.CANCEL, "by": person})

    def results(self, deadline_s: float = LOOK_S) -> dict[str, HostResults]:
        """What each host has written, all asked at once."""
        asked = self._ask_all(result_tasks.results)
        end_s = time.monotonic() + deadline_s
        return {host: _results_of(future, end_s, deadline_s) for host, future in asked.items()}

    def read_part(self, host: str, kind: ResultKind, path: str, offset: int) -> Part | None:
        """A part of a file that a host has written; None where it has no such file. JobError: it does not answer."""
        part: Part | None = self.ask(host, result_tasks.read_part, kind, path, offset)
        return part

    def _ask_all(self, function: Callable[[], Any]) -> dict[str, Future[Any]]:
        """A question to all hosts at once."""
        return {host: connection.ask_host(self._client, NAME, host, function) for host in self.names()}

    def _ask(self, host: str, function: Callable[..., Any], *arguments: Any) -> Future[Any]:
        return connection.ask_host(self._client, NAME, host, function, host, *arguments)

    def _change(self, host: str, unit: str, function: Callable[..., Any], *arguments: Any) -> dict[str, Any]:
        place = host or self._host_of(unit)
        answer = _result(place, self._ask(place, function, unit, *arguments), ANSWER_S)
        assert isinstance(answer, dict)
        if "error" in answer:
            raise unit_tasks.KINDS[answer["error"]](answer["text"])
        return answer

    def _host_of(self, unit: str) -> str:
        """The host that has a unit; raises NoUnitError where none that answers has it."""
        names = self.names()
        asked = {host: self._ask(host, unit_tasks.has_unit, unit) for host in names}
        silent = []
        for host, future in asked.items():
            try:
                if _result(host, future, LOOK_S):
                    return host
            except JobError as error:
                silent.append(str(error))
        text = f"no unit of the cluster is called {unit!r}; hosts: {', '.join(names) or 'none'}"
        raise NoUnitError("; ".join([text, *silent]))


@contextlib.contextmanager
def connected(address: ClusterAddress, folder: Path | None) -> Iterator[Hosts]:
    """The hosts of a cluster until the block ends; raises JobError where no scheduler answers, or it goes away."""
    hosts = join(address, folder)
    try:
        yield hosts
    except NO_ANSWER as error:
        raise JobError(connection.unanswered(address, error)) from None
    finally:
        hosts.close()


def join(address: ClusterAddress, folder: Path | None) -> Hosts:
    """The hosts of a cluster; raises JobError where no scheduler answers, ConfigError where it is of another farm."""
    return Hosts(connection.connect_client(address, folder, NAME.replace(" ", "-")))


def _look_of(host: str, future: Future[bytes], end_s: float, deadline_s: float) -> HostLook:
    content, error = _answer_by(future, end_s, deadline_s)
    return HostLook(host, error=error) if error else HostLook(host, tuple(unit_tasks.SEEN.validate_json(content)))


def _results_of(future: Future[bytes], end_s: float, deadline_s: float) -> HostResults:
    content, error = _answer_by(future, end_s, deadline_s)
    return HostResults(error=error) if error else result_tasks.RESULTS.validate_json(content)


def _answer_by(future: Future[bytes], end_s: float, deadline_s: float) -> tuple[bytes, str]:
    """What a host answered by a time (monotonic), or why it did not."""
    try:
        return future.result(max(0.0, end_s - time.monotonic())), ""
    except TimeoutError:
        return b"", f"did not answer within {deadline_s:g} s"
    except (*NO_ANSWER, FarmError, ValueError) as error:  # a host's devices.yml may be wrong, its farm another
        return b"", " ".join(str(error).split())[:300] or type(error).__name__


def _result(host: str, future: Future[Any], deadline_s: float) -> Any:
    try:
        return future.result(deadline_s)
    except NO_ANSWER as error:
        future.cancel()
        raise JobError(f"{host}: does not answer: {str(error) or type(error).__name__}") from None
