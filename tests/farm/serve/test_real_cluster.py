"""The page's source against a real scheduler and worker: units, reservations, checks, and a scheduler that restarts."""

import contextlib
import json
import signal
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from farm.cluster.address import parse_cluster_address
from farm.cluster.host_files import PART_BYTES
from farm.report.write import write_reports
from farm.serve.cluster_source import ClusterSource
from farm.serve.watcher import QueueWatcher, UnitWatcher
from farm.units.survey import UnitState
from runtime.errors import ConfigError, NoUnitError, UnitBusyError
from tests.farm.cluster.services import STARTED_S, TestCluster, start_command, wait_until
from tests.farm.conftest import CallFarm
from tests.farm.model.tiny_model import write_deployment
from tests.farm.report import nights
from tests.farm.serve.rack import Rack, service_of_rack, serving
from tests.farm.test_artifacts import publish

pytestmark = pytest.mark.slow
LONG = "100000"  # rounds that nobody waits for
PHONES = "\n".join(
    ["devices:"] + [f"  phone{number}: {{serial: none{number}, target_socs: sdm845}}" for number in range(3)]
)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestCluster]:
    """Two hosts: one offers itself, the other only has phones that are not there."""
    with TestCluster(tmp_path_factory.mktemp("cluster"), certificates=True) as found:
        found.start_worker("alpha").wait_for("alpha: is offered")
        found.start_worker("beta", devices=PHONES).wait_for("offers its units")
        yield found


@pytest.fixture
def folder(own_folder: Path, cluster: TestCluster, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder whose commands mean the cluster."""
    monkeypatch.setenv("FARM_CLUSTER", cluster.url)
    monkeypatch.setenv("FARM_CERTIFICATES", str(cluster.folder / "ca"))
    return own_folder


@pytest.fixture
def source(cluster: TestCluster, folder: Path) -> ClusterSource:
    return ClusterSource(parse_cluster_address(cluster.url), cluster.folder / "ca")


def test_units_by_host_and_what_is_done_about_them(source: ClusterSource, farm: CallFarm, folder: Path) -> None:
    look = source.look()
    assert look.hosts == {"alpha": "", "beta": ""}
    assert look.host_of == {"alpha": "alpha"} | {f"phone{number}": "beta" for number in range(3)}
    assert source.reserve("alpha", 600.0, "flashing", "alice", False).startswith("alpha: reserved by alice until")
    with pytest.raises(UnitBusyError, match=r"alpha: reserved by alice.*release alpha --force"):
        source.reserve("alpha", 600.0, "x", "bob", False)
    states = {report.unit.name: report for report in source.look().reports}
    assert states["alpha"].state == UnitState.RESERVED and states["phone1"].state != UnitState.READY

    status, out, _ = farm("devices", "--json")
    (told,) = [unit for unit in json.loads(out)["devices"] if unit["name"] == "alpha"]
    assert status == 0 and told["held_by"].startswith("reserved by alice"), "is visible everywhere"
    status, _, err = farm("reserve", "alpha", "--for", "1h", "--reason", "mine")
    assert status == 1 and "alpha: reserved by alice" in err and err.count("\n") == 1
    assert farm("reserve", "alpha", "--for", "1h", "--reason", "mine", "--force")[1].startswith("alpha: reserved by")
    status, out, _ = farm("release", "alpha")
    assert status == 0 and out.startswith("alpha: freed, was reserved by")
    status, _, err = farm("reserve", "nobody", "--for", "1h", "--reason", "x")
    assert status == 3 and "no unit of the cluster is called 'nobody'; hosts: alpha, beta" in err


def test_a_unit_is_checked_on_its_host(source: ClusterSource, farm: CallFarm, folder: Path) -> None:
    status, out, _ = farm("devices", "check", "alpha", "--json")
    found = json.loads(out)
    assert status == 0 and found["unit"] == "alpha" and len(found["findings"]) >= 3, found
    assert all(point["ok"] for point in found["findings"])
    with pytest.raises(NoUnitError):
        source.check("nobody")


def test_the_queue_and_a_job_that_is_cancelled(source: ClusterSource, folder: Path) -> None:
    write_deployment(folder, runtime="cpu", shape="1000,3,8,8")
    command = start_command("run", "tiny.yml", "--all", "--round", LONG)
    wait_until(lambda: any(job.count("running") for job in source.jobs()), "the job runs")
    wait_until(lambda: any("tiny" in job.tasks[0].progress for job in source.jobs()), "it says how far it is")
    (job,) = source.jobs()
    assert (job.name.command, job.tasks[0].unit) == ("run", "alpha")
    with pytest.raises(ConfigError, match="no such job"):
        source.cancel_job("nothing", "alice")
    source.cancel_job(job.name.id, "alice")
    command.communicate(timeout=STARTED_S)
    assert command.returncode != 0
    wait_until(lambda: not source.jobs(), "the queue is empty")


def test_the_scheduler_is_killed_and_comes_back(cluster: TestCluster, source: ClusterSource) -> None:
    units, queue = UnitWatcher(source), QueueWatcher(source)
    assert units.look().trouble == "" and queue.look().error == ""
    cluster.services["scheduler"].end(signal.SIGKILL)
    assert "no scheduler answers there" in units.look().trouble
    assert "alpha" in units.snapshot.units, "what is known stays"
    assert "no scheduler answers there" in queue.look().error
    cluster.start_scheduler(int(cluster.url.rpartition(":")[2]))
    wait_until(lambda: units.look().trouble == "" and len(units.snapshot.hosts) == 2, "all is well again")
    assert queue.look().error == ""
    assert source.release("alpha", "alice", True).startswith("alpha: ")


def test_a_host_that_stands_still_is_named(
    cluster: TestCluster, source: ClusterSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    source.look()
    process = cluster.services["beta"].process
    process.send_signal(signal.SIGSTOP)
    try:
        monkeypatch.setattr("farm.cluster.hosts.Hosts.look.__defaults__", (5.0,))
        look = source.look()
    finally:
        process.send_signal(signal.SIGCONT)
    assert look.hosts == {"alpha": "", "beta": "did not answer within 5 s"}
    reasons = {report.unit.name: report.reason for report in look.reports}
    assert reasons["phone0"] == "host beta: did not answer within 5 s"
    wait_until(lambda: not source.look().hosts["beta"], "beta answers again")


def test_reports_and_artifacts_of_hosts_until_one_is_gone(
    cluster: TestCluster, source: ClusterSource, folder: Path
) -> None:
    beta = cluster.folder / "beta"
    write_reports(nights.night(3, nights.PHONES[:1]), beta / "reports" / "lab")
    figures = beta / "reports" / "lab" / "night.json"
    figures.write_bytes(figures.read_bytes() + b" " * (PART_BYTES + 7))
    publish(beta / "build" / "lib" / "opencl" / "host")
    publish(cluster.folder / "alpha" / "build" / "lib" / "opencl" / "host")
    source.look()
    service = service_of_rack(Rack(1), folder, others=[source])
    with serving(service) as address, httpx.Client(base_url=address, timeout=STARTED_S) as client:
        (report,) = client.get("/api/reports").json()["reports"]
        assert (report["host"], report["name"]) == ("beta", "lab") and "Latency by" in client.get(
            report["address"]
        ).text
        assert client.get(f"{report['address']}night.json").content == figures.read_bytes()
        found = client.get("/api/artifacts").json()
        assert [one["host"] for one in found["artifacts"]] == ["alpha", "alpha", "beta", "beta"] and not found["notes"]
        for one in found["artifacts"]:
            assert client.get(one["address"]).content == (cluster.folder / one["host"] / one["file"]).read_bytes()
        assert client.get("/hosts/beta/artifacts/devices.yml").status_code == 404

        cluster.services["beta"].end(signal.SIGKILL)
        wait_until(lambda: service.others.look().notes, "beta is missed")
        assert {one["host"] for one in client.get("/api/artifacts").json()["artifacts"]} == {"alpha"}
        assert "left out: beta, which is not in the cluster any more" in client.get("/reports").text
        answer = client.get(f"/api{report['address']}"), client.get(report["address"])
        assert [each.status_code for each in answer] == [404, 502] and "not in the cluster" in answer[1].text
    with contextlib.chdir(cluster.folder / "alpha"):
        assert "alpha" not in source.results(), "what lies in this very folder is not another host's"
