"""Rows of units of other hosts, with hosts that answer what a test says: names, retries, losses, mistakes."""

import contextlib
import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from distributed.client import FutureCancelledError

from farm.cluster.client import ClusterSession, HostFullError, SchedulerLostError
from farm.cluster.remote_rows import SentCommand, remote_rows
from farm.cluster.remote_units import ClusterExecutor
from farm.cluster.sent_jobs import each_model
from farm.config import deployment
from farm.config.inventory import Unit
from farm.jobs.fleet import dispatch
from farm.jobs.fleet.dispatch import FleetOptions
from farm.jobs.fleet.progress import SILENT
from farm.jobs.run import RunOptions, run_settings
from farm.rows.result import Conditions, make_row
from farm.rows.row import Failure, Identity
from farm.rows.run import RunRow
from farm.rows.status import Status
from runtime.errors import ConfigError, DeviceLostError, FarmError, JobError, ProcessKilledError, UnsupportedError
from tests.farm.model.tiny_model import write_deployment

Answer = dict[str, Any]
UNITS = [Unit(name, "adb", "sdm845", name, ("host",), serial=name) for name in ("mi8", "mi8b")]


class Done:
    """A future with its answer; without one it is never done."""

    def __init__(self, answer: Answer | None) -> None:
        self._answer, self.cancelled = answer, False

    def done(self) -> bool:
        return self._answer is not None

    def add_done_callback(self, call: Callable[[Any], None]) -> None:
        if self.done():
            call(self)

    def result(self) -> str:
        if self._answer == {}:
            raise FutureCancelledError("key", "scheduler")
        return json.dumps(self._answer)

    def cancel(self) -> None:
        self.cancelled = True


class Hosts:
    """Stands for a cluster: unit -> what its host answers, one after the other."""

    def __init__(self) -> None:
        self.answers: dict[str, list[Answer | None]] = {}
        self.offered = {unit.name: "lab" for unit in UNITS}
        self.asked: list[tuple[str, str, tuple[str, ...]]] = []
        self.sent: list[str] = []
        self.futures: list[Done] = []
        self.cancelled_by, self.is_lost = "", False
        self.job = type("Job", (), {"id": "abc123"})
        self.on_submit: Callable[[str], object] = lambda unit: None

    def show_events(self, handler: object) -> None:
        self.handler = handler

    def host_of(self, unit: str) -> str | None:
        return self.offered.get(unit)

    def waking(self, wake: Callable[[], None]) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext()

    def scheduler_lost(self) -> SchedulerLostError:
        return SchedulerLostError("the scheduler has gone")

    def full(self, host: str, reason: str) -> HostFullError:
        return HostFullError(f"{host}: {reason}")

    def check_room(self, host: str) -> None:
        assert host == "lab"

    def fetch_files(self, host: str, files: dict[str, str], folder: Path) -> None:
        assert not files, "these hosts make none"

    def send_files(self, host: str, files: Any) -> None:
        self.sent += [host for _ in files]

    def submit(self, host: str, unit: str, work: str, arguments: Any, files: Any, leaves: bool = False) -> Done:
        self.asked.append((unit, work, tuple(arguments)))
        self.futures.append(Done(self.answers[unit].pop(0)))
        self.on_submit(unit)
        return self.futures[-1]


def row(runtime: str, error: FarmError | None = None) -> Answer:
    """A row as a host prints it, of its unit `host`."""
    identity = Identity(unit="host", soc="sdm845", device_model="MI 8", library="l", model="tiny", runtime=runtime)
    made = make_row(RunRow, identity, Conditions({"rounds": 10}), Failure.of(error or JobError("")))
    return made.model_copy(update={} if error else {"status": Status.OK}).model_dump(mode="json")


def printed(*rows: Answer) -> Answer:
    return {"document": {"error": None, "rows": list(rows)}, "files": {}}


def ended_with(kind: str, message: str) -> Answer:
    return {"document": {"error": {"kind": kind, "message": message}, "rows": []}, "files": {}}


@pytest.fixture
def hosts(own_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hosts]:
    """Two units of one SoC on a host, and a model for both runtimes."""
    monkeypatch.setattr(dispatch, "POLL_S", 0.05)
    write_deployment(own_folder, runtime="cpu+gpu")
    yield Hosts()


def rows_of(hosts: Hosts, wanted: RunOptions | None = None, **options: Any) -> list[RunRow]:
    source, wanted = deployment.load(Path("tiny.yml")), wanted or RunOptions()
    command = SentCommand(RunRow, "run", ("--round", "10"), {})
    works = each_model(source, run_settings(wanted), wanted.lanes)
    units = UNITS[: len(hosts.answers)]
    fleet = FleetOptions(**{"return_s": 0.2, **options})
    return list(remote_rows(hosts, command, works, units, fleet, SILENT))  # type: ignore[arg-type]


def seen(rows: list[RunRow]) -> list[tuple[str, str, str]]:
    return sorted((each.unit, each.runtime, each.status) for each in rows)


def test_rows_have_the_units_name_in_the_cluster(hosts: Hosts) -> None:
    hosts.answers = {"mi8": [printed(row("cpu"), row("gpu"))], "mi8b": [printed(row("cpu"), row("gpu"))]}
    assert seen(rows_of(hosts)) == [(unit.name, runtime, "ok") for unit in UNITS for runtime in ("cpu", "gpu")]
    assert {asked[1:] for asked in hosts.asked} == {("tiny", ("run", "model.yml", "--round", "10"))}
    assert len(hosts.sent) == 4, "deployment file and model, for each unit"


def test_each_engine_owes_its_rows(hosts: Hosts) -> None:
    lost = printed(row("cpu"), row("gpu", DeviceLostError("gone")))
    hosts.answers = {"mi8": [lost]}
    rows = rows_of(hosts, RunOptions(engines=("farmrt", "onnxruntime")), retries=0)
    assert sorted((each.engine, each.runtime, each.status) for each in rows) == [
        ("farmrt", "cpu", "ok"),
        ("farmrt", "gpu", "device_lost"),
        ("onnxruntime", "cpu", "device_lost"),
    ]


def test_a_lost_units_job_is_done_by_another(hosts: Hosts) -> None:
    lost = printed(row("cpu"), row("gpu", DeviceLostError("gone")))
    hosts.answers = {"mi8": [lost, lost], "mi8b": [lost, printed(row("cpu"), row("gpu"))]}
    hosts.on_submit = lambda unit: hosts.offered.pop(unit) if unit == "mi8" else None
    rows = rows_of(hosts, spread=True, retries=2)
    assert [(each.runtime, each.status) for each in rows] == [("cpu", "ok"), ("gpu", "ok")]


def test_what_a_lost_unit_had_measured_is_kept(hosts: Hosts) -> None:
    lost = printed(row("cpu"), row("gpu", DeviceLostError("gone")))
    hosts.answers = {"mi8": [lost, lost]}
    rows = rows_of(hosts)
    assert seen(rows) == [("mi8", "cpu", "ok"), ("mi8", "gpu", "device_lost")] and rows[1].reason == "gone"
    assert len(hosts.asked) == 2, "once again"


def test_a_killed_job_is_done_again(hosts: Hosts) -> None:
    killed = printed(row("cpu"), row("gpu", ProcessKilledError("killed")))
    hosts.answers = {"mi8": [killed, printed(row("cpu"), row("gpu"))]}
    assert seen(rows_of(hosts)) == [("mi8", "cpu", "ok"), ("mi8", "gpu", "ok")]


def test_other_failures_are_rows_at_once(hosts: Hosts) -> None:
    hosts.answers = {"mi8": [printed(row("cpu"), row("gpu", UnsupportedError("no GPU")))]}
    assert seen(rows_of(hosts)) == [("mi8", "cpu", "ok"), ("mi8", "gpu", "unsupported")]


@pytest.mark.slow
def test_a_host_that_goes_away_while_it_works_loses_its_units(hosts: Hosts) -> None:
    hosts.answers = {"mi8": [None]}
    hosts.on_submit = lambda unit: hosts.offered.pop(unit)
    rows = rows_of(hosts)
    assert seen(rows) == [("mi8", "cpu", "device_lost"), ("mi8", "gpu", "device_lost")]
    assert rows[0].reason == "mi8: no host offers it" and rows[0].settings["rounds"] == 10
    assert hosts.futures[0].cancelled


def test_a_host_that_cannot_do_it_says_why(hosts: Hosts) -> None:
    hosts.answers = {"mi8": [{"error": "No space left on device"}] * 2}
    rows = rows_of(hosts)
    assert seen(rows) == [("mi8", "cpu", "failed"), ("mi8", "gpu", "failed")]
    assert rows[0].reason == "mi8: No space left on device"


def test_a_job_that_the_scheduler_drops_is_begun_again_three_times(hosts: Hosts) -> None:
    """No fault of the unit, so that no retry is spent."""
    hosts.answers = {"mi8": [{}, {}, {}, printed(row("cpu"), row("gpu"))]}
    assert seen(rows_of(hosts, retries=0)) == [("mi8", "cpu", "ok"), ("mi8", "gpu", "ok")]
    hosts.answers = {"mi8": [{}] * 4}
    assert seen(rows_of(hosts, retries=0)) == [("mi8", "cpu", "device_lost"), ("mi8", "gpu", "device_lost")]


@pytest.mark.slow
def test_a_scheduler_that_goes_away_while_a_job_runs_is_no_fault_of_the_unit(hosts: Hosts) -> None:
    """It may be seen before the job is dropped; no retry is spent."""
    hosts.answers = {"mi8": [None, printed(row("cpu"), row("gpu"))]}

    def lose(unit: str) -> None:
        hosts.is_lost = bool(hosts.answers["mi8"])
        hosts.offered = {} if hosts.is_lost else {"mi8": "lab"}

    hosts.on_submit = lose
    monitor = threading.Timer(0.15, lambda: hosts.offered.update(mi8="lab"))
    monitor.start()
    assert seen(rows_of(hosts, retries=0, return_s=60.0)) == [("mi8", "cpu", "ok"), ("mi8", "gpu", "ok")]


@pytest.mark.parametrize(("is_lost", "said"), [(True, "the scheduler has gone"), (False, "mi8: no host offers it")])
def test_a_scheduler_that_is_gone_is_named(hosts: Hosts, is_lost: bool, said: str) -> None:
    hosts.is_lost, hosts.offered = is_lost, {}
    nothing: Any = None
    executor, unit = ClusterExecutor(cast(ClusterSession, hosts)), Unit("mi8", "local", "sdm845", "MI 8", ())
    with pytest.raises(DeviceLostError, match=said), executor.open(unit, nothing, nothing, nothing):
        pass


def test_a_host_without_room_loses_the_job(hosts: Hosts) -> None:
    hosts.answers = {"mi8": [{"no_room": "No space left on device"}]}
    rows = rows_of(hosts, retries=0)
    assert seen(rows) == [("mi8", "cpu", "device_lost"), ("mi8", "gpu", "device_lost")]
    assert rows[0].reason == "lab: No space left on device"


def test_the_users_mistake_ends_everything(hosts: Hosts) -> None:
    hosts.answers = {"mi8": [ended_with("config", "model.yml:3: no")], "mi8b": [None]}
    with pytest.raises(ConfigError, match=r"model\.yml:3: no"):
        rows_of(hosts)
    with contextlib.suppress(IndexError):
        assert hosts.futures[-1].done() or hosts.futures[-1].cancelled


def test_a_host_that_has_lost_the_unit_is_as_good_as_none(hosts: Hosts) -> None:
    hosts.answers = {"mi8": [ended_with("no_unit", "no such unit")] * 2}
    assert seen(rows_of(hosts)) == [("mi8", "cpu", "device_lost"), ("mi8", "gpu", "device_lost")]


def test_a_cancelled_job_ends_with_one_line(hosts: Hosts) -> None:
    hosts.answers = {"mi8": [None], "mi8b": [None]}

    def cancel(_: str) -> None:
        hosts.cancelled_by = "bob@lab"

    hosts.on_submit = cancel
    with pytest.raises(JobError, match="bob@lab ended this job"):
        rows_of(hosts)
    assert all(future.cancelled for future in hosts.futures)
