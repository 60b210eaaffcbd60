"""A made-up rack of units, as a source for the service, and a service of it."""

import contextlib
import dataclasses
import datetime
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import uvicorn

from farm.cluster import result_tasks
from farm.cluster.queue import JobName, JobReport, TaskReport, named_job
from farm.cluster.result_tasks import HostResults, ResultKind
from farm.config.inventory import Unit
from farm.lease.holder import Holder
from farm.rows.device_state import DeviceState
from farm.serve.access import Sessions
from farm.serve.app import create_app
from farm.serve.kept_results import KeptResults
from farm.serve.service import FarmService
from farm.serve.source import Look, ResultSource
from farm.serve.tokens import Tokens
from farm.serve.watcher import QueueWatcher, ResultsWatcher, UnitWatcher
from farm.units.facts import Facts
from farm.units.facts_cache import DriverFacts
from farm.units.health import CheckResult, HealthHistory, JobOutcome, Quarantine
from farm.units.survey import UnitReport, UnitState
from runtime.errors import JobError, UnitBusyError

HOSTILE = '<img src=x onerror="alert(1)">\x1b[31m</td><script>alert(2)</script>'
START_S = 60.0
SOCS = ("sdm845", "sm8150", "kirin970", "rk3399", "exynos9810")
STATES = (
    *[UnitState.READY] * 6,
    UnitState.BUSY,
    UnitState.BUSY,
    UnitState.RESERVED,
    UnitState.QUARANTINED,
    UnitState.OFFLINE,
)


def now() -> datetime.datetime:
    return datetime.datetime.now().astimezone()


def held(owner: str, job: str, hours: float, is_reservation: bool = False) -> Holder:
    return Holder(
        owner, 42, job, now() - datetime.timedelta(hours=1), now() + datetime.timedelta(hours=hours), is_reservation
    )


def unit_report(number: int) -> UnitReport:
    """One of the units, always the same."""
    state, soc = STATES[number % len(STATES)], SOCS[number % len(SOCS)]
    holder = None
    if state == UnitState.BUSY:
        holder = held("ci@lab1", "tune resnet50", 0.01)
    if state == UnitState.RESERVED:
        holder = held("bob", "flashing a new driver", 2, True)
    reasons = {
        UnitState.QUARANTINED: "in quarantine since 2026-03-01 12:30: 3 of the last 5 jobs failed: timeout",
        UnitState.OFFLINE: "adb sees it, but it does not answer",
    }
    return UnitReport(
        Unit(f"phone-{number:03}", "adb", soc, f"Model {number % 7}", ("arm64-v8a",), serial=f"S{number:06}"),
        state,
        holder.line if holder else reasons.get(state, ""),
        Facts(model=f"Model {number % 7}", soc=soc, os="Android 14 (API 34)", gpu="Adreno 630"),
        DriverFacts(gpu="Adreno (TM) 630", driver="OpenCL 2.0 build", opencl="OpenCL 2.0"),
        DeviceState(temperature_c=30.0 + number % 15, battery_percent=50 + number % 50, charging=number % 2 == 0),
        holder,
    )


def job_report(number: int, *tasks: TaskReport) -> JobReport:
    """A job of the queue."""
    priority = "nightly" if number % 2 else "interactive"
    return JobReport(JobName(f"job{number}", f"user{number}@lab", "benchmark", priority, 1.7e9 + number), tasks)


class Rack:
    """A source with so many units, which remembers what was asked of it; `fault` is raised by the next look.

    With hosts it is a cluster: units lie on them in turn.
    """

    def __init__(self, count: int, hosts: Sequence[str] = ()) -> None:
        self.hosts = dict.fromkeys(hosts, "")
        self.host_of = {f"phone-{n:03}": hosts[n % len(hosts)] for n in range(count)} if hosts else {}
        self.queue: list[JobReport] = []
        self.reports: list[UnitReport] = [unit_report(number) for number in range(count)]
        self.asked: list[tuple[object, ...]] = []
        self.fault: JobError | None = None

    def look(self) -> Look:
        if self.fault:
            raise self.fault
        return Look(list(self.reports), self.hosts, self.host_of)

    @property
    def has_queue(self) -> bool:
        return bool(self.hosts)

    def jobs(self) -> Sequence[JobReport]:
        if self.fault:
            raise self.fault
        return list(self.queue)

    def cancel_job(self, job: str, person: str) -> None:
        named_job(self.queue, job)
        self.asked.append(("cancel", job, person))
        self.queue = [report for report in self.queue if report.name.id != job]

    def health(self, unit: Unit) -> HealthHistory:
        outcomes = (JobOutcome(time=1.7e9, ok=True), JobOutcome(time=1.7e9 + 60, ok=False, reason=HOSTILE))
        at_fault = unit.name == "phone-009"
        quarantine = Quarantine(reason="3 of 5", since=1.7e9, recheck_at=1.8e9) if at_fault else None
        return HealthHistory(outcomes=outcomes, quarantine=quarantine)

    def reserve(self, name: str, duration_s: float, reason: str, person: str, force: bool) -> str:
        self.asked.append(("reserve", name, duration_s, reason, person, force))
        report = self.named(name)
        if report.holder and not force:
            raise UnitBusyError(f"{name}: {report.holder.line}")
        holder = held(person, reason, duration_s / 3600, True)
        self.change(name, state=UnitState.RESERVED, holder=holder, reason=holder.line)
        return f"{name}: {holder.line}"

    def release(self, name: str, person: str, force: bool) -> str:
        self.asked.append(("release", name, person, force))
        self.change(name, state=UnitState.READY, holder=None, reason="")
        return f"{name}: freed"

    def check(self, name: str) -> Sequence[CheckResult]:
        self.asked.append(("check", name))
        return [CheckResult("connection", True, "fine"), CheckResult("files", False, HOSTILE)]

    def named(self, name: str) -> UnitReport:
        return next(report for report in self.reports if report.unit.name == name)

    def change(self, name: str, **members: object) -> None:
        self.reports = [
            dataclasses.replace(report, **members) if report.unit.name == name else report  # type: ignore[arg-type]
            for report in self.reports
        ]


class FolderOfHost:
    """What a host has written, where another folder stands for it; `error`: it does not answer."""

    def __init__(self, host: str, folder: Path) -> None:
        self.host, self.folder, self.error = host, folder, ""

    def results(self) -> dict[str, HostResults]:
        if self.error:
            return {self.host: HostResults(error=self.error)}
        with contextlib.chdir(self.folder):
            return {self.host: result_tasks.RESULTS.validate_json(result_tasks.results())}

    def content(self, host: str, kind: ResultKind, path: str) -> Iterator[bytes] | None:
        if self.error:
            raise JobError(f"{host}: {self.error}")
        with contextlib.chdir(self.folder):
            part = result_tasks.read_part(kind, path, 0)
        return iter((part[1],)) if part else None


def service_of_rack(
    rack: Rack, folder: Path, every_s: float = 3600.0, others: Sequence[ResultSource] = (), store: str = ""
) -> FarmService:
    """A service whose store (or that of a URL), reports and tokens lie in a folder; it has looked once."""
    tokens = Tokens(folder / "tokens.json")
    watcher = UnitWatcher(rack, every_s)
    watcher.look()
    results = KeptResults(store or str(folder / "farm.db"), folder / "reports")
    queue = QueueWatcher(rack, every_s)
    queue.look()
    watched = ResultsWatcher(others, every_s)
    watched.look()
    return FarmService(rack, watcher, queue, results, tokens, Sessions(tokens), watched)


@contextlib.contextmanager
def serving(service: FarmService, name: str = "127.0.0.1") -> Iterator[str]:
    """Serves on a free port of loopback, in a thread, to those who ask for this name; yields the address."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        app = create_app(service, {name})
        server = uvicorn.Server(uvicorn.Config(app, log_level="error", timeout_graceful_shutdown=1, ws="none"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
        thread.start()
        end = time.monotonic() + START_S
        while not server.started:
            assert time.monotonic() < end and thread.is_alive(), "it did not start"
            time.sleep(0.01)
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join(START_S)
