"""The commands that go to hosts as a whole, on two real hosts of this machine: what comes back is as if done here."""

import functools
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from farm import artifacts
from farm.rows.compare import CompareRow
from farm.rows.nightly import NightlyRow
from farm.rows.tune import TuneRow
from farm.workspace import journal_file
from tests.farm.cluster.services import TestCluster, wait_until
from tests.farm.conftest import CallFarm
from tests.farm.jobs.bisect.repositories import model_repository
from tests.farm.model.tiny_model import write_deployment
from tuner.journal import read_records

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestCluster]:
    """Two hosts on this machine alone; each offers itself."""
    with TestCluster(tmp_path_factory.mktemp("cluster"), certificates=False) as found:
        found.start_hosts("alpha", "beta")
        yield found


@pytest.fixture(autouse=True)
def folder(own_folder: Path, cluster: TestCluster, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a model, whose commands mean the cluster."""
    write_deployment(own_folder, runtime="gpu")
    monkeypatch.setenv("FARM_CLUSTER", cluster.url)
    return own_folder


def test_a_tuning_leaves_here_what_it_would_leave_here(farm: CallFarm, cluster: TestCluster) -> None:
    status, out, err = farm("tune", "tiny.yml", "--budget", "6", "--json")
    rows = [TuneRow.model_validate(row) for row in json.loads(out)["rows"]]
    assert (status, {(row.unit, row.status) for row in rows}) == (0, {("alpha", "ok"), ("beta", "ok")}), err
    (tuned_file, kernels_file) = map(Path, rows[0].artifacts)
    manifest = artifacts.read_manifest(tuned_file.parent)
    assert {tuned_file.name, kernels_file.name} <= set(manifest.files)
    assert [finding.good for path in artifacts.find() for finding in artifacts.verify(path, {})].count(False) == 0
    assert manifest.sets[0].models[0].model == "tiny"

    ours = journal_file("host").read_bytes().splitlines()
    assert read_records(journal_file("host"))
    for host in ("alpha", "beta"):  # each has shared its trials, the other has them, and we have all
        folder = cluster.folder / host / "build/cluster/journals"
        (own,), (copy,) = (list(found.glob("host.*.jsonl")) for found in (folder, folder / "others"))
        wait_until(functools.partial(_is_copied, cluster, host, own), "the copy is whole")
        assert set(own.read_bytes().splitlines()) <= set(ours) and copy.name != own.name
    (used,) = json.loads(farm("run", "tiny.yml", "--cluster", "", "--json")[1])["rows"]
    assert used["tuned"]["match"] == "exact" and used["kernels"]["match"] == "exact"


def _is_copied(cluster: TestCluster, host: str, own: Path) -> bool:
    """Whether the other host has a copy of a host's journal."""
    other = "beta" if host == "alpha" else "alpha"
    return (cluster.folder / other / "build/cluster/journals/others" / own.name).read_bytes() == own.read_bytes()


def test_single_operators_of_all_hosts(farm: CallFarm) -> None:
    words = ("opbench", "--filter", "^conv1x1/buffer/fp32/.*14x14", "--min-time", "0.005", "--json")
    status, out, err = farm(*words)
    found = [(row["unit"], row["model"]) for row in json.loads(out)["rows"]]
    here = [row["model"] for row in json.loads(farm(*words, "--cluster", "")[1])["rows"]]
    assert status == 0 and here, err
    assert sorted(found) == sorted((unit, model) for unit in ("alpha", "beta") for model in here)
    status, _, err = farm("opbench", "--filter", "no such thing")
    assert status == 2 and "no benchmark of these units matches" in err and err.count("\n") == 1


def test_two_versions_of_a_model_on_a_host(farm: CallFarm, folder: Path) -> None:
    (folder / "other").mkdir()
    write_deployment(folder / "other", runtime="gpu")
    words = ("compare", "tiny.yml", "other/tiny.yml", "--turns", "8", "--margin", "100")
    status, out, err = farm(*words, "--device", "beta", "--json")
    (row,) = [CompareRow.model_validate(row) for row in json.loads(out)["rows"]]
    assert (status, row.unit, row.status) == (0, "beta", "ok"), err
    assert (row.a.name, row.b.name, row.a.kind) == ("tiny.yml", "other/tiny.yml", "model")
    assert row.ratio and len(row.blocks) >= 10


def test_a_model_compared_with_itself_on_a_host(farm: CallFarm) -> None:
    words = ("compare", "tiny.yml", "tiny.yml", "--turns", "8", "--margin", "100", "--repeat", "2", "--device", "alpha")
    status, out, err = farm(*words, "--json")
    found = [CompareRow.model_validate(row) for row in json.loads(out)["rows"]]
    assert [(row.unit, row.status, row.a.name) for row in found] == [("alpha", "ok", "tiny.yml")] * 2, err
    assert status == 0 and "tiny on alpha (gpu): " in err and " of 2 intervals cover 1 " in err


def test_two_engines_on_a_host(farm: CallFarm, folder: Path) -> None:
    write_deployment(folder, runtime="cpu")
    words = ("compare", "farmrt", "onnxruntime", "tiny.yml", "--turns", "8", "--margin", "99", "--device", "beta")
    _, out, err = farm(*words, "--json")
    (row,) = [CompareRow.model_validate(row) for row in json.loads(out)["rows"]]
    assert (row.unit, row.engine, row.status) == ("beta", "onnxruntime", "ok"), err
    assert (row.a.name, row.a.kind, row.b.name) == ("farmrt", "engine", "onnxruntime") and row.ratio


def test_a_bisection_compares_on_a_host(farm: CallFarm, folder: Path) -> None:
    model_repository(folder / "models", 2, 1, large="1024,3,8,8")
    words = ("bisect", "HEAD~1", "HEAD", "tiny.yml", "--repository", "models", "--turns", "8")
    status, out, err = farm(*words, "--device", "beta", "--json")
    document = json.loads(out)
    assert status == 0 and {row["unit"] for row in document["rows"]} == {"beta"}, err
    assert document["ratio"] > 1 and [each["subject"] for each in document["suspects"]] == ["number 1"]


def test_nights_of_the_hosts_own_units_with_a_file_of_the_client(farm: CallFarm, folder: Path) -> None:
    """Every host calls its own unit `host`; rows, series and bundles have the host's name."""
    (folder / "tuned").write_bytes(b"nonsense")
    settings = "{default: {}, broken: {tuned: tuned}}"
    (folder / "lab.yml").write_text(f"models: tiny.yml\nsettings: {settings}\nrepeats: 2\nrounds: 2\nmost_reruns: 0\n")
    for number in (1, 2):
        status, out, err = farm("nightly", "lab.yml", "--json")
        rows = [NightlyRow.model_validate(row) for row in json.loads(out)["rows"]]
        assert {(row.unit, row.setting, row.status == "ok") for row in rows} == {
            (unit, setting, setting == "default") for unit in ("alpha", "beta") for setting in ("default", "broken")
        }, (status, err)
        good = [row for row in rows if row.setting == "default"]
        assert all(row.duet and len(row.blocks) == 2 and row.cosine for row in good), (status, err)
        assert {row.duet.identical for row in good if row.duet} == {number == 2}
        assert all("8 bytes are no FARMTUNE file" in row.reason for row in rows if row.setting == "broken")
    assert {each["verdict"] for each in json.loads(out)["series"] if each["setting"] == "default"} <= {"new"}
