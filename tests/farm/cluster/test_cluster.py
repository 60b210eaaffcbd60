"""Real schedulers and workers on this machine, each a process of its own: the same rows as without them."""

import json
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import farm as package
from farm.cluster.certificates import create_authority
from tests.farm.cluster.services import (
    DEVICES,
    PROGRAM,
    STARTED_S,
    Service,
    TestCluster,
    end,
    listed_jobs,
    rows,
    running_jobs,
    start_command,
    wait_until,
)
from tests.farm.conftest import CallFarm
from tests.farm.emulated_units import EmulatedUnits, farmrt_processes
from tests.farm.model.tiny_model import write_deployment

pytestmark = pytest.mark.slow

LONG = "100000"  # rounds that nobody waits for


@pytest.mark.usefixtures("folder")
def test_devices_are_those_of_all_hosts(farm: CallFarm) -> None:
    status, out, _ = farm("devices", "--json")
    devices = json.loads(out)["devices"]
    assert status == 0
    assert [(each["host"], each["name"], each["state"]) for each in devices] == [
        ("alpha", "alpha", "ready"),
        ("beta", "beta", "ready"),
    ]
    assert farm("devices", "--device", "gamma")[0] == 3
    assert farm("devices", "--watch")[0] == 2


def test_a_run_gives_the_same_rows_and_its_outputs(farm: CallFarm, folder: Path) -> None:
    wanted = ("run", "tiny.yml", "--validate", "--round", "2", "--json", "--output-dir", "made")
    status, out, err = farm(*wanted)
    assert (status, err) == (0, "")
    found = {row.unit: row for row in rows(out)}
    assert set(found) == {"alpha", "beta"}
    assert {path.name for path in (folder / "made").iterdir()} == {"tiny.alpha.cpu.y.npy", "tiny.beta.cpu.y.npy"}
    (here,) = rows(farm(*wanted, "--cluster", "")[1])
    there = found["alpha"]
    assert here.unit == "host" and here.model_fields_set == there.model_fields_set
    for member in ("status", "soc", "library", "model", "runtime", "settings", "fingerprint", "hashes", "versions"):
        assert getattr(here, member) == getattr(there, member), member
    stored = json.loads(farm("store", "info", "--json")[1])
    assert [run["rows"] for run in stored["runs"]] == [1, 2]


@pytest.mark.usefixtures("folder")
def test_a_benchmark_with_a_trace(farm: CallFarm, folder: Path) -> None:
    status, out, _ = farm(
        "benchmark", "tiny.yml", "--round", "2", "--device", "beta", "--trace", "trace.json", "--json"
    )
    (row,) = json.loads(out)["rows"]
    assert (status, row["unit"], row["status"]) == (0, "beta", "ok")
    assert json.loads((folder / "trace.json").read_text())["traceEvents"]


def test_a_model_that_cannot_run_is_a_row_of_each_unit(farm: CallFarm, folder: Path) -> None:
    (folder / "tiny.onnx").write_bytes(b"nonsense")
    status, out, _ = farm("run", "tiny.yml", "--json")
    assert status == 1
    assert sorted((row.unit, row.status != "ok") for row in rows(out)) == [("alpha", True), ("beta", True)]


@pytest.mark.usefixtures("folder")
def test_mistakes_are_one_line(farm: CallFarm, cluster: TestCluster, tmp_path: Path) -> None:
    create_authority(tmp_path / "strangers", "alpha")
    status, _, err = farm("devices", "--certificates", str(tmp_path / "strangers"))
    assert status == 1 and "no scheduler answers there with a certificate of the same authority" in err
    assert err.count("\n") == 1
    status, _, err = farm("run", "tiny.yml", "--device", "gamma")
    assert status == 3 and "alpha" in err and err.count("\n") == 1
    status, _, err = farm("jobs", "show", "nothing")
    assert status == 2 and err == "error: nothing: no such job runs, waits or is kept; there are: none\n"
    status, _, err = farm("jobs", "list", "--cluster", "")
    assert status == 2 and "which cluster?" in err


@pytest.mark.usefixtures("folder")
def test_jobs_are_listed_shown_and_cancelled(farm: CallFarm) -> None:
    process = start_command("run", "tiny.yml", "--device", "alpha", "--round", LONG, "--priority", "nightly")
    try:
        (job,) = wait_until(lambda: running_jobs(farm), "the job runs")
        assert (job["command"], job["priority"]) == ("run", "nightly")
        (task,) = job["tasks"]
        assert (task["unit"], task["work"], task["state"]) == ("alpha", "tiny", "running")
        wait_until(lambda: running_jobs(farm)[0]["tasks"][0]["progress"], "it says how far it is")
        assert "alpha" in farm("jobs", "show", job["id"])[1]
        assert farm("jobs", "wait", job["id"], "--timeout", "0.5")[0] == 1
        status, out, _ = farm("jobs", "cancel", job["id"])
        assert status == 0 and "cancelled" in out
        _, err = process.communicate(timeout=STARTED_S)
        assert process.returncode == 1 and f"(`farm jobs cancel {job['id']}`)" in err
    finally:
        end(process)
    assert farm("run", "tiny.yml", "--device", "alpha", "--wait", "20", "--round", "1")[0] == 0, "the unit is free"


@pytest.mark.usefixtures("folder")
def test_an_interrupted_job_gives_its_unit_back_and_a_nightly_one_waits(farm: CallFarm) -> None:
    """Three jobs on one unit: the one that runs is interrupted, and of those that wait the interactive one is first."""
    first = start_command("run", "tiny.yml", "--device", "beta", "--round", LONG)
    others: list[subprocess.Popen[str]] = []
    try:
        wait_until(lambda: running_jobs(farm), "the first job runs")
        for count, priority in enumerate(("nightly", "interactive"), 2):
            more = ("--priority", priority, "--round", LONG if priority == "interactive" else "1")
            others.append(start_command("run", "tiny.yml", "--device", "beta", *more))
            wait_until(lambda count=count: _with_tasks(farm) == count, "it waits")  # type: ignore[misc]
        first.send_signal(signal.SIGINT)
        first.communicate(timeout=STARTED_S)
        assert first.returncode == 130
        (job,) = wait_until(lambda: running_jobs(farm), "the next job runs")
        assert job["priority"] == "interactive"
        others[1].send_signal(signal.SIGINT)
        others[0].communicate(timeout=STARTED_S)
        assert others[0].returncode == 0
    finally:
        for process in (first, *others):
            end(process)


@pytest.mark.usefixtures("folder")
def test_jobs_that_wait_for_a_reserved_unit_say_whose_it_is(farm: CallFarm) -> None:
    """Both the one that is at the unit and the one behind it."""
    status, out, err = farm("reserve", "alpha", "--for", "2h", "--reason", "flashing")
    assert status == 0 and "alpha: reserved by " in out, err
    words = ("run", "tiny.yml", "--device", "alpha", "--round", "1", "--wait", "300")
    processes = [start_command(*words)]
    try:
        wait_until(lambda: _reasons(farm), "the first one meets the reservation")
        processes.append(start_command(*words))
        (one, two) = wait_until(lambda: reasons if len(reasons := _reasons(farm)) == 2 else [], "the next one knows")
        assert one == two and one.startswith("waiting, reserved by ") and one.endswith(": flashing")
        assert not running_jobs(farm), "what waits for a person does not run"
        listed = farm("jobs", "list")[1]
        assert "Waits for" in listed and "flashing" in listed
        assert one in farm("jobs", "show", listed_jobs(farm)[0]["id"], "--json")[1]
        assert farm("release", "alpha")[0] == 0
        for process in processes:
            _, err = process.communicate(timeout=STARTED_S)
            assert process.returncode == 0, err
    finally:
        farm("release", "alpha")
        for process in processes:
            end(process)


def _reasons(farm: CallFarm) -> list[str]:
    return [task["reason"] for job in listed_jobs(farm) for task in job["tasks"] if task["reason"]]


def _with_tasks(farm: CallFarm) -> int:
    return sum(bool(job["tasks"]) for job in listed_jobs(farm))


def test_a_worker_of_another_farm_is_refused_by_name(cluster: TestCluster) -> None:
    older = f"import farm; farm.__version__ = '0.0.1'; {PROGRAM}"
    worker = cluster.start_worker("gamma", older)
    line = worker.wait_for("error:")
    assert f"the scheduler is of farm {package.__version__}, host gamma of 0.0.1; install the same" in line
    assert worker.process.wait(STARTED_S) == 2


def test_a_worker_of_a_name_that_is_taken_is_refused(cluster: TestCluster, tmp_path: Path) -> None:
    arguments = ["worker", "--scheduler", cluster.url, "--name", "alpha", "--certificates", str(cluster.folder / "ca")]
    worker = Service(arguments, tmp_path)
    assert "'host alpha' is offered in the cluster already" in worker.wait_for("error:")
    assert worker.process.wait(STARTED_S) == 2


@pytest.fixture
def plain(tmp_path: Path) -> Iterator[TestCluster]:
    """A scheduler of this machine alone."""
    with TestCluster(tmp_path, certificates=False) as found:
        yield found


def test_phones_of_two_hosts_one_of_which_dies(
    emulated: EmulatedUnits, plain: TestCluster, farm: CallFarm, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A model for any of two phones: when the host of the one that runs it is killed, the other host does it."""
    write_deployment(emulated.folder, runtime="cpu")
    phones = {"alpha": emulated.phone("one"), "beta": emulated.phone("two")}
    for (host, phone), name in zip(phones.items(), ("one", "two"), strict=True):
        devices = DEVICES.format(name=name, phone=phone.port, server=emulated.server)
        plain.start_worker(host, devices=devices).wait_for(f"{name}: is offered (unit:{name}, at:{host}, soc:sdm845)")
    monkeypatch.setenv("FARM_CLUSTER", plain.url)
    process = start_command("run", "tiny.yml", "--soc", "sdm845", "--spread", "--round", "500", "--json")
    try:
        (job,) = wait_until(lambda: running_jobs(farm), "the job runs")
        (task,) = job["tasks"]
        dying = "alpha" if task["unit"] == "one" else "beta"
        wait_until(lambda: farmrt_processes(phones[dying]), "farmrt runs on the phone")
        plain.services[dying].end(signal.SIGKILL)
        out, err = process.communicate(timeout=STARTED_S)
        (row,) = rows(out)
        assert (process.returncode, row.status, row.unit != task["unit"]) == (0, "ok", True), err
        wait_until(lambda: not farmrt_processes(phones[dying]), "the dead host's job has ended")
    finally:
        end(process)


def test_units_come_and_go_and_the_scheduler_returns(plain: TestCluster) -> None:
    worker = plain.start_worker("alpha")
    worker.wait_for("alpha: is offered")
    devices = plain.folder / "alpha/devices.yml"
    devices.write_text("devices:\n  far:\n    transport: ssh\n    address: 127.0.0.1\n    port: 1\n")
    worker.wait_for("alpha: has gone")
    devices.unlink()
    worker.wait_for("alpha: is offered")
    plain.services["scheduler"].end()
    worker.wait_for("the scheduler has gone; waiting for it")
    plain.start_scheduler(int(plain.url.rpartition(":")[2]))
    worker.wait_for("alpha: is offered")
    assert worker.end() == 0
