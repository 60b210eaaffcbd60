"""Commands that go on without their client, on real hosts of this machine: fetched by others, ended, begun again."""

import json
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest

from farm import artifacts
from farm.rows.compare import CompareRow
from farm.workspace import journal_file
from tests.farm.cluster.services import TestCluster, listed_jobs, rows, running_jobs, wait_until
from tests.farm.conftest import CallFarm
from tests.farm.model.tiny_model import write_deployment

pytestmark = pytest.mark.slow

LONG, QUICK = "100000", "400"  # rounds: what nobody waits for, and some seconds


def detached(farm: CallFarm, *arguments: str) -> dict[str, Any]:
    """What a command says that was left to the cluster."""
    status, out, err = farm(*arguments, "--detach", "--json")
    assert status == 0, err
    found: dict[str, Any] = json.loads(out)
    return found


def kept(farm: CallFarm, job: str) -> dict[str, Any]:
    (found,) = [listed for listed in listed_jobs(farm) if listed["id"] == job]
    return dict(found["detached"])


def test_a_run_is_fetched_as_if_it_had_been_waited_for(farm: CallFarm, folder: Path, cluster: TestCluster) -> None:
    said = detached(farm, "run", "tiny.yml", "--validate", "--round", "2", "--output-dir", "made")
    job, host = said["job"]["id"], said["host"]
    assert host in ("alpha", "beta") and said["fetch"] == ["farm", "jobs", "fetch", job, "--output-dir", "made"]
    shutil.rmtree(folder / "reports", ignore_errors=True)
    (folder / "tiny.yml").unlink()  # another terminal, another folder: nothing here is needed
    status, out, err = farm("jobs", "fetch", job, "--output-dir", "made", "--json")
    assert (status, err) == (0, "")
    assert {(row.unit, row.status, row.cosine is not None) for row in rows(out)} == {
        ("alpha", "ok", True),
        ("beta", "ok", True),
    }
    assert {path.name for path in (folder / "made").iterdir()} == {"tiny.alpha.cpu.y.npy", "tiny.beta.cpu.y.npy"}
    assert kept(farm, job) == {"host": host, "exit_status": 0}
    assert farm("jobs", "wait", job)[0] == 0 and f"ended with 0, on {host}" in farm("jobs", "list")[1]

    status, again, err = farm("jobs", "fetch", job)
    assert status == 0 and "alpha" in again and "its outputs stay where they are; --output-dir DIR" in err
    (run,) = json.loads(farm("store", "info", "--json")[1])["runs"]
    assert (run["name"], run["rows"], run["state"]) == ("run", 2, "finished"), "fetched twice, kept once"
    assert "farm run tiny.yml" in run["command"] and "--detach" in run["command"]

    shutil.rmtree(cluster.folder / host / "build/cluster/objects")
    status, _, err = farm("jobs", "fetch", job)
    assert status == 2 and err == f"error: {job}: its results are no longer on {host}: they made room for others\n"


@pytest.mark.opencl
def test_a_tuning_leaves_here_what_it_would_leave_here(farm: CallFarm, folder: Path) -> None:
    write_deployment(folder, runtime="gpu")
    said = detached(farm, "tune", "tiny.yml", "--device", "alpha", "--budget", "4")
    assert not journal_file("host").exists()
    status, out, err = farm("jobs", "fetch", said["job"]["id"], "--json")
    (row,) = json.loads(out)["rows"]
    assert (status, row["unit"], row["status"]) == (0, "alpha", "ok"), err
    assert journal_file("host").exists()
    assert all(finding.good for path in artifacts.find() for finding in artifacts.verify(path, {}))
    assert {str(path) for path in artifacts.find()} >= set(row["artifacts"])


def test_a_comparison_has_the_names_of_whoever_asked_for_it(farm: CallFarm, folder: Path) -> None:
    (folder / "other").mkdir()
    shutil.copy("tiny.onnx", "other")
    shutil.copy("tiny.yml", "other")
    words = ("compare", "tiny.yml", "other/tiny.yml", "--turns", "8", "--margin", "100", "--device", "beta")
    job = detached(farm, *words)["job"]["id"]
    status, out, err = farm("jobs", "fetch", job, "--json")
    (row,) = [CompareRow.model_validate(row) for row in json.loads(out)["rows"]]
    assert (status, row.unit, row.status, len(row.blocks) >= 10) == (0, "beta", "ok", True), err
    assert (row.a.name, row.b.name, row.a.kind) == ("tiny.yml", "other/tiny.yml", "model")
    status, out, _ = farm("jobs", "fetch", job)
    assert status == 0 and out.startswith("A: tiny.yml\nB: other/tiny.yml\n") and row.verdict in out


@pytest.mark.usefixtures("folder")
def test_mistakes_and_failures_are_told_at_once_or_when_fetched(farm: CallFarm, folder: Path) -> None:
    assert farm("run", "tiny.yml", "--device", "gamma", "--detach")[0] == 3, "no job is begun for nothing"
    status, _, err = farm("run", "tiny.yml", "--detach", "--cluster", "")
    assert status == 2 and "--detach: hosts of a cluster go on by themselves" in err
    for words, reason in ((("nightly", "lab.yml"), "nights before"), (("bisect", "a", "b", "tiny.yml"), "repository")):
        status, _, err = farm(*words, "--detach")
        assert status == 2 and reason in err and "`systemd-run --user farm ...` leaves it" in err
    status, _, err = farm("compare", "run:1", "run:2", "--detach")
    assert status == 2 and err.startswith("error: --detach: stored runs are compared here and at once")
    job = detached(farm, "opbench", "--filter", "no such thing")["job"]["id"]
    status, _, err = farm("jobs", "fetch", job)
    assert status == 2 and "no benchmark of these units matches" in err and err.count("\n") == 1
    (folder / "tiny.onnx").write_bytes(b"nonsense")
    job = detached(farm, "benchmark", "tiny.yml", "--device", "alpha")["job"]["id"]
    status, out, err = farm("jobs", "fetch", job, "--json")
    assert status == 1 and [row["status"] != "ok" for row in json.loads(out)["rows"]] == [True], err
    status, _, err = farm("jobs", "fetch", job, "--store", "none", "--trace", "trace.json")
    assert status == 1 and json.loads(Path("trace.json").read_text())["traceEvents"] is not None


@pytest.mark.usefixtures("folder")
def test_one_that_is_cancelled_keeps_the_rows_that_it_had(farm: CallFarm, folder: Path) -> None:
    """A model on two units, on one of which another job runs: one row is there, the other waits."""
    first = detached(farm, "run", "tiny.yml", "--device", "alpha", "--round", LONG)["job"]["id"]
    wait_until(lambda: running_jobs(farm), "the first job runs")
    second = detached(farm, "run", "tiny.yml", "--round", QUICK)["job"]["id"]
    try:
        assert farm("jobs", "fetch", second, "--timeout", "0")[0] == 1, "it has not ended"
        wait_until(lambda: ("beta", "running") in _tasks(farm, second), "the free unit works")
        wait_until(lambda: _tasks(farm, second) == [("alpha", "waiting")], "only the other's unit is left")
        status, out, _ = farm("jobs", "cancel", second)
        assert status == 0 and "cancelled" in out
        status, _, err = farm("jobs", "fetch", second)
        assert status == 1 and err.endswith(f" ended this job (`farm jobs cancel {second}`)\n")
        (run,) = json.loads(farm("store", "info", "--json")[1])["runs"]
        assert run["rows"] == 1
    finally:
        assert farm("jobs", "cancel", first)[0] == 0
    assert farm("run", "tiny.yml", "--device", "alpha", "--wait", "20", "--round", "1")[0] == 0, "the unit is free"


def _tasks(farm: CallFarm, job: str) -> list[tuple[str, str]]:
    found = [listed["tasks"] for listed in listed_jobs(farm) if listed["id"] == job]
    return [(task["unit"], task["state"]) for tasks in found for task in tasks]


def test_the_scheduler_and_the_host_die_while_it_runs(
    tmp_path: Path, own_folder: Path, farm: CallFarm, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A scheduler that is started again finds the job; a host begins it again when it is back."""
    write_deployment(own_folder, runtime="cpu", shape="1000,3,8,8")
    with TestCluster(tmp_path / "cluster", certificates=False) as cluster:
        monkeypatch.setenv("FARM_CLUSTER", cluster.url)
        cluster.start_hosts("alpha")
        job = detached(farm, "run", "tiny.yml", "--round", QUICK, "--retries", "0")["job"]["id"]
        wait_until(lambda: running_jobs(farm), "the job runs")
        cluster.services["scheduler"].end(signal.SIGKILL)
        status, _, err = farm("jobs", "fetch", job)
        assert status == 1 and "no scheduler answers there" in err
        cluster.start_scheduler(int(cluster.url.rpartition(":")[2]))
        wait_until(lambda: running_jobs(farm), "the job runs again")
        cluster.services["alpha"].end(signal.SIGKILL)
        wait_until(lambda: "such job" in farm("jobs", "fetch", job)[2], "its host has gone, and with it the job")
        cluster.start_hosts("alpha")
        status, out, err = farm("jobs", "fetch", job, "--json")
        (row,) = rows(out)
        assert (status, row.unit, row.status) == (0, "alpha", "ok"), err
        begun = cluster.folder / f"alpha/build/cluster/detached/{job}/begun"
        assert begun.read_text() == "begun\n" * 2
