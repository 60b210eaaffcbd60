"""Comparisons and bisections over a cluster whose client, host or scheduler ends: nothing measured is lost."""

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from farm.jobs.turn_journal import KeptTurn
from farm.rows.compare import CompareRow
from tests.farm.cluster.services import STARTED_S, TestCluster, end, running_jobs, start_command, wait_until
from tests.farm.conftest import CallFarm
from tests.farm.jobs.bisect.repositories import model_repository
from tests.farm.model.tiny_model import write_deployment

pytestmark = [pytest.mark.slow, pytest.mark.opencl]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[TestCluster]:
    """A host on this machine alone, which offers itself."""
    with TestCluster(tmp_path / "cluster", certificates=False) as found:
        found.start_hosts("alpha")
        yield found


@pytest.fixture(autouse=True)
def folder(own_folder: Path, cluster: TestCluster, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a model, whose commands mean the cluster."""
    write_deployment(own_folder, runtime="gpu")
    monkeypatch.setenv("FARM_CLUSTER", cluster.url)
    return own_folder


TURNS = 12  # enough that some are left when the first is seen
COMPARE = ("compare", "tiny.yml", "tiny.yml", "--turns", str(TURNS), "--margin", "100", "--json")


def _turns_on(cluster: TestCluster, host: str) -> list[KeptTurn]:
    """The turns that a host keeps of comparisons that have not ended."""
    files = (cluster.folder / host / "build/cluster/jobs").glob("*/build/*/compare/host/*.turns.jsonl")
    return [KeptTurn.model_validate_json(line) for path in files for line in path.read_bytes().split()]


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGKILL, -signal.SIGKILL)])
def test_a_comparison_whose_client_ends_goes_on_with_its_turns(
    farm: CallFarm, cluster: TestCluster, number: int, status: int
) -> None:
    process = start_command(*COMPARE, "--store", "none")
    try:
        wait_until(lambda: _turns_on(cluster, "alpha"), "a turn is over")
        process.send_signal(number)
        out, err = process.communicate(timeout=STARTED_S)
        assert process.returncode == status
        if number == signal.SIGINT:
            assert json.loads(out)["error"]["kind"] == "interrupted"
            assert "the turns that were measured are kept on the hosts, the same command goes on from them" in err
    finally:
        end(process)
    wait_until(lambda: not running_jobs(farm), "the host's job has ended")
    assert farm("run", "tiny.yml", "--device", "alpha", "--wait", "60", "--round", "1")[0] == 0, "the unit is free"
    kept = _turns_on(cluster, "alpha")
    again, out, err = farm(*COMPARE)
    (row,) = [CompareRow.model_validate(row) for row in json.loads(out)["rows"]]
    assert (again, row.status) == (0, "ok") and len(row.blocks) >= 2 * TURNS, err  # more where this machine is busy
    assert 0 < len(kept) < TURNS and row.settings["seed"] == kept[0].seed
    assert row.blocks[: 2 * len(kept)] == tuple(block for turn in kept for block in turn.blocks)
    assert not _turns_on(cluster, "alpha"), "all rows are there"


@pytest.mark.parametrize("dies", ["scheduler", "alpha"])
def test_a_comparison_outlives_its_host_and_its_scheduler(cluster: TestCluster, dies: str) -> None:
    process = start_command(*COMPARE, "--store", "none", "--retries", "1")
    try:
        wait_until(lambda: _turns_on(cluster, "alpha"), "a turn is over")
        cluster.services[dies].end(signal.SIGKILL)
        kept = _turns_on(cluster, "alpha")
        if dies == "scheduler":
            cluster.start_scheduler(int(cluster.url.rpartition(":")[2]))
        else:
            cluster.start_hosts("alpha")
        out, err = process.communicate(timeout=STARTED_S)
        (row,) = [CompareRow.model_validate(row) for row in json.loads(out)["rows"]]
        assert (process.returncode, row.status, row.unit) == (0, "ok", "alpha") and len(row.blocks) >= 2 * TURNS, err
        assert row.blocks[: 2 * len(kept)] == tuple(block for turn in kept for block in turn.blocks)
    finally:
        end(process)


def test_a_bisection_that_is_interrupted_goes_on(farm: CallFarm, cluster: TestCluster, folder: Path) -> None:
    model_repository(folder / "models", 2, 1, large="1024,3,8,8")
    words = ("bisect", "HEAD~1", "HEAD", "tiny.yml", "--repository", "models", "--turns", str(TURNS), "--json")
    process = start_command(*words)
    try:
        wait_until(lambda: _turns_on(cluster, "alpha"), "a turn is over")
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=STARTED_S)
        assert process.returncode == 130 and "the same command goes on from here" in err
    finally:
        end(process)
    wait_until(lambda: not running_jobs(farm), "the host's job has ended")
    kept = _turns_on(cluster, "alpha")
    status, out, err = farm(*words)
    document = json.loads(out)
    assert (status, [each["subject"] for each in document["suspects"]]) == (0, ["number 1"]), err
    first = CompareRow.model_validate(document["rows"][0])
    assert kept and first.blocks[: 2 * len(kept)] == tuple(block for turn in kept for block in turn.blocks)
