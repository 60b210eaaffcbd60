"""Nights on emulated phones of two real hosts: the same verdicts as on one machine, also where hosts or clients die."""

import json
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from farm.rows.duet import DuetFigures
from farm.rows.nightly import NightlyRow
from farm.store import Store
from farm.store.bundle_archive import BundleArchive, folder_of
from tests.farm.cluster.services import DEVICES, STARTED_S, TestCluster, end, start_command, wait_until
from tests.farm.emulated_units import EmulatedUnits
from tests.farm.jobs.nightly.nightly_command import nightly
from tests.farm.jobs.nightly.test_duets import FILE, chain
from tests.farm.model.tiny_model import write_deployment
from tests.farm.store.postgresql_server import empty_schema

pytestmark = [pytest.mark.slow, pytest.mark.opencl]

BLOCKS = 24  # of a night that is interrupted once or twice, each time after some blocks


@pytest.fixture
def cluster(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[TestCluster]:
    """A scheduler of this machine alone, which all commands mean."""
    with TestCluster(tmp_path_factory.mktemp("cluster"), certificates=False) as found:
        monkeypatch.setenv("FARM_CLUSTER", found.url)
        yield found


@pytest.fixture
def phones(emulated: EmulatedUnits, cluster: TestCluster) -> EmulatedUnits:
    """The phone `one` on the host alpha, `two` on beta; in the folder of the client there is no unit."""
    for host, name in (("alpha", "one"), ("beta", "two")):
        devices = DEVICES.format(name=name, phone=emulated.phone(name).port, server=emulated.server)
        cluster.start_worker(host, devices=devices).wait_for(f"{name}: is offered")
    Path("devices.yml").write_text("devices:\n")
    return emulated


@pytest.fixture
def shared_phone(emulated: EmulatedUnits, cluster: TestCluster) -> EmulatedUnits:
    """The phone `one`, which both hosts list and alpha offers; a night of it takes its time."""
    devices = DEVICES.format(name="one", phone=emulated.phone("one").port, server=emulated.server)
    cluster.start_worker("alpha", devices=devices).wait_for("one: is offered")
    cluster.start_worker("beta", devices=devices).wait_for("one: another host offers it")
    Path("devices.yml").write_text("devices:\n")
    Path("lab.yml").write_text(FILE.replace("all: yes", "device: one").replace("repeats: 2", f"repeats: {BLOCKS}"))
    return emulated


@pytest.fixture(autouse=True)
def lab(tmp_path: Path) -> None:
    (tmp_path / "lab.yml").write_text(FILE.replace("all: yes", "soc: sdm845"))


def stored(run: int, url: str | None = None) -> dict[str, NightlyRow]:
    """The rows of a run by unit; a unit with several fails."""
    with Store.open(url) as store:
        rows = [NightlyRow.model_validate(row) for row in store.rows(run)]
    assert len({row.unit for row in rows}) == len(rows)
    return {row.unit: row for row in rows}


def duet(row: NightlyRow) -> DuetFigures:
    assert row.duet is not None
    return row.duet


def noted(url: str | None = None) -> list[Any]:
    """The blocks of the newest run that are kept already."""
    with Store.open(url) as store:
        runs = store.runs(name="lab", limit=1)
        return [data for key, data in store.progress(runs[0].id) if key != "plan"] if runs else []


def blocks(row: NightlyRow) -> list[Any]:
    return [block.model_dump(mode="json") for block in row.blocks]


def started_night(*more: str, url: str | None = None) -> subprocess.Popen[str]:
    """A night in a process of its own, some blocks of which are kept already."""
    store = ("--store", url) if url else ()
    process, before = start_command("nightly", "lab.yml", "--json", *store, *more), len(noted(url))
    wait_until(lambda: process.poll() is not None or len(noted(url)) >= before + 4, "blocks are kept")
    assert process.poll() is None, process.communicate()
    return process


@pytest.mark.usefixtures("cluster", "phones")
def test_slower_software_is_found_on_every_host(tmp_path: Path, capsys: Any) -> None:
    write_deployment(tmp_path, chain(4))
    status, verdict, err = nightly(capsys)
    assert (status, set(stored(1))) == (0, {"one", "two"}), err
    assert {duet(row).fallback for row in stored(1).values()} == {
        "there is no bundle of an earlier night to compare with"
    }
    with Store.open() as store:
        archive = BundleArchive(folder_of(store.address))
        assert store.run(1).state == "finished" and not archive.problems()
    assert {(one.unit, one.run, *sorted(one.files)) for one in archive.manifests("lab")} == {
        (unit, 1, "farmrt", "plan", "weights") for unit in ("one", "two")
    }
    status, plan, _ = nightly(capsys, "--dry-run")
    assert {unit["unit"]: unit["cases"] for unit in plan["units"]} == {
        unit: [f"tiny (gpu, default) on {unit}"] for unit in ("one", "two")
    }

    write_deployment(tmp_path, chain(12))
    status, verdict, err = nightly(capsys)
    assert (status, verdict["outcome"]) == (1, "worse"), err
    for row in stored(verdict["run"]).values():
        found = duet(row)
        assert (found.against, found.verdict) == (1, "slower") and len(found.pairs) >= 16, row.unit
        assert found.ratio and found.ratio > 1.2 and len(row.blocks) == 2 and row.ops
    assert {row["unit"]: NightlyRow.model_validate(row) for row in verdict["rows"]} == stored(verdict["run"])
    assert Path(verdict["report"]).is_file()
    assert {one.run for one in archive.manifests("lab") if one.files} == {1}, "what is worse is no bundle to use"

    write_deployment(tmp_path, chain(4))
    status, verdict, err = nightly(capsys)
    assert status == 0, err
    assert all(duet(row).identical and duet(row).verdict == "same" for row in stored(verdict["run"]).values())
    assert not archive.problems()


@pytest.mark.usefixtures("shared_phone")
def test_a_host_that_dies_and_another_that_has_its_phone(cluster: TestCluster) -> None:
    process = started_night()
    try:
        cluster.services["alpha"].end(signal.SIGKILL)
        kept = noted()
        out, err = process.communicate(timeout=STARTED_S)
        assert process.returncode == 0, err
        row = stored(1)["one"]
        assert (row.status, len(row.blocks)) == ("ok", BLOCKS)
        assert blocks(row)[: len(kept)] == kept, "nothing is measured twice"
        assert blocks(row) == noted(), "nothing is kept twice"
        assert [NightlyRow.model_validate(found) for found in json.loads(out)["rows"]] == [row]
    finally:
        end(process)


@pytest.mark.usefixtures("shared_phone")
def test_a_client_that_dies_goes_on_and_a_lost_phone_keeps_its_blocks(cluster: TestCluster, capsys: Any) -> None:
    first = started_night()
    end(first)
    kept = noted()
    second = started_night("--resume", "--retries", "0", "--wait", "120")
    try:
        for host in ("alpha", "beta"):
            cluster.services[host].end(signal.SIGKILL)
        _, err = second.communicate(timeout=STARTED_S)
        assert second.returncode == 1, err
        row = stored(1)["one"]
        assert row.status == "device_lost" and blocks(row) == noted()
        assert noted()[: len(kept)] == kept and BLOCKS > len(noted()) > len(kept)
    finally:
        end(second)
    assert nightly(capsys, "--resume")[0] == 3, "no host offers a unit"


@pytest.mark.usefixtures("shared_phone")
def test_a_scheduler_that_dies_in_a_night_that_postgresql_keeps(cluster: TestCluster) -> None:
    """The night goes on with its blocks when the scheduler is back, though no retry is allowed."""
    with empty_schema() as url:
        process = started_night("--retries", "0", url=url)
        try:
            cluster.services["scheduler"].end(signal.SIGKILL)
            kept = noted(url)
            cluster.start_scheduler(int(cluster.url.rpartition(":")[2]))
            out, err = process.communicate(timeout=STARTED_S)
            assert process.returncode == 0, err
            row = stored(1, url)["one"]
            assert (row.status, len(row.blocks)) == ("ok", BLOCKS)
            assert blocks(row)[: len(kept)] == kept, "nothing is measured twice"
            assert blocks(row) == noted(url), "nothing is kept twice"
            assert [NightlyRow.model_validate(found) for found in json.loads(out)["rows"]] == [row]
        finally:
            end(process)
