"""Hosts without a cluster take over what the others have tuned; nothing is lost, spoilt, or put elsewhere."""

import dataclasses
import json
from pathlib import Path

import pytest

from farm import artifacts, cli
from farm.artifacts import SetRecord
from farm.jobs.sharing.share import ShareResult, own_files, share_results
from farm.rows.latency import Latency
from farm.store.shared_place import SharedPlace
from farm.workspace import Workspace, journal_file
from runtime.errors import ConfigError, FarmError
from runtime.kernels.source import all_sources_hash
from runtime.plan.artifacts import Fingerprint, KernelSet, TunedEntry, TunedSet
from tuner.journal import HEADER_LINE

DEVICE = Fingerprint("sdm845", "adreno", "3.1", "OpenCL 2.0", "adreno-630", all_sources_hash(), "0.1.0")
OTHER = dataclasses.replace(DEVICE, soc="gs201")
ENTRY = TunedEntry("conv|1", "conv", "-DBLOCK=8", 8, 2, (64, 16, 1), (8, 4, 1), 100, 50)
LATENCY = Latency(median=1.0, p90=1.0, min=1.0, max=1.0, std=0.0, samples=(1.0,))


@pytest.fixture
def hosts(tmp_path: Path) -> tuple[Path, Path]:
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    second.mkdir()
    return first, second


def tune(fingerprint: Fingerprint, gain_percent: float, tuned_ns: int = 50, trials: tuple[bytes, ...] = ()) -> None:
    """Leaves in the working directory what `farm tune` does."""
    workspace = Workspace("lib")
    tuned_file = workspace.tuned_file("arm64-v8a", "MI 8", fingerprint.soc)
    kernels_file = workspace.kernels_file("arm64-v8a", "MI 8", fingerprint.soc)
    evidence = {
        "model": "m",
        "default_ms": LATENCY,
        "tuned_ms": LATENCY,
        "gain_percent": gain_percent,
        "gain_ci": None,
        "trials": 3,
        "device_s": 1.0,
    }
    record = SetRecord.model_validate(
        {
            "fingerprint": dataclasses.asdict(fingerprint),
            "device_model": "MI 8",
            "unit": "phone",
            "time": "2026-01-01T00:00:00+00:00",
            "versions": {},
            "settings": {},
            "launches": (),
            "models": (evidence,),
        }
    )
    tuned = TunedSet(fingerprint, "MI 8", (dataclasses.replace(ENTRY, tuned_ns=tuned_ns),))
    artifacts.publish(tuned_file, tuned, kernels_file, KernelSet(fingerprint, "MI 8", {"h|": b"code"}), record)
    journal = journal_file(fingerprint.soc)
    journal.parent.mkdir(parents=True, exist_ok=True)
    journal.write_bytes(b"\n".join((HEADER_LINE, *trials)) + b"\n")


def shared(host: Path, place: str, monkeypatch: pytest.MonkeyPatch) -> ShareResult:
    monkeypatch.chdir(host)
    return share_results(place, Path("none"), lambda _: None)


def tuned_ns(soc: str) -> int:
    (one_set,) = artifacts.read(Workspace("lib").tuned_file("arm64-v8a", "MI 8", soc)).sets
    assert isinstance(one_set, TunedSet)
    return one_set.entries[0].tuned_ns


def test_two_hosts_have_what_both_tuned(place: str, hosts: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(hosts[0])
    tune(DEVICE, 10.0, trials=(b'{"trial": 1}', b'{"trial": 2}'))
    monkeypatch.chdir(hosts[1])
    tune(OTHER, 10.0)
    tune(DEVICE, 5.0, tuned_ns=60, trials=(b'{"trial": 2}', b'{"trial": 3}'))
    shared(hosts[0], place, monkeypatch)
    second = shared(hosts[1], place, monkeypatch)
    assert (second.sets, second.trials, second.left_out) == (1, 1, ())
    assert tuned_ns("sdm845") == 50, "the larger gain replaces the smaller one"
    first = shared(hosts[0], place, monkeypatch)
    assert (first.sets, first.trials, first.others) == (1, 2, (second.host,))  # the header of gs201's journal is one
    for host in hosts:
        monkeypatch.chdir(host)
        assert (tuned_ns("sdm845"), tuned_ns("gs201")) == (50, 50)
        lines = set(journal_file("sdm845").read_bytes().split(b"\n"))
        assert {b'{"trial": 1}', b'{"trial": 2}', b'{"trial": 3}'} <= lines
        assert all(found.good for path in artifacts.find() for found in artifacts.verify(path, {}))
    again = shared(hosts[1], place, monkeypatch)
    assert (again.sets, again.trials) == (0, 0)


@pytest.mark.parametrize(
    ("theirs", "gain_percent"),
    [
        pytest.param(DEVICE, 5.0, id="gained less"),
        pytest.param(dataclasses.replace(DEVICE, source_hash="older"), 50.0, id="other kernel sources"),
    ],
)
def test_what_does_not_beat_ours_is_not_taken_over(
    theirs: Fingerprint, gain_percent: float, place: str, hosts: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(hosts[0])
    tune(theirs, gain_percent, tuned_ns=60)
    monkeypatch.chdir(hosts[1])
    tune(DEVICE, 10.0)
    shared(hosts[0], place, monkeypatch)
    assert shared(hosts[1], place, monkeypatch).sets == 0 and tuned_ns("sdm845") == 50


def test_only_what_changed_is_sent(place: str, hosts: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(hosts[0])
    tune(DEVICE, 10.0, trials=(b'{"trial": 1}',))
    assert shared(hosts[0], place, monkeypatch).sent_bytes > 0
    assert shared(hosts[0], place, monkeypatch).sent_bytes == 0
    journal = journal_file("sdm845")
    journal.write_bytes(journal.read_bytes() + b'{"trial": 2}\n')
    assert shared(hosts[0], place, monkeypatch).sent_bytes == journal.stat().st_size
    found = SharedPlace(place)
    (host,) = found.hosts("hosts")
    given = found.files_of("hosts", host)
    assert all(found.fetch(digest, hosts[1] / name) for name, digest in given.items())
    assert (hosts[1] / journal).read_bytes() == journal.read_bytes()


def test_a_lost_object_is_sent_again_and_a_damaged_host_is_named(
    hosts: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "place"
    monkeypatch.chdir(hosts[0])
    tune(DEVICE, 10.0)
    host = shared(hosts[0], str(place), monkeypatch).host
    objects = sorted((place / "objects").iterdir())
    objects[0].unlink()
    objects[1].write_bytes(b"rubbish")
    told = shared(hosts[1], str(place), monkeypatch)
    assert told.left_out and told.left_out[0].startswith(f"{host}: ") and not own_files()
    objects[1].unlink()
    shared(hosts[0], str(place), monkeypatch)
    assert shared(hosts[1], str(place), monkeypatch).sets == 1
    (place / "hosts" / f"{host}.json").write_text("[")
    told = shared(hosts[1], str(place), monkeypatch)
    assert told.left_out == (f"{host}: {place}: hosts/{host}.json is damaged",)


@pytest.mark.parametrize(
    "name", ["../outside", "/outside", "build/lib/opencl/../../../outside", "devices.yml", "build/x"]
)
def test_a_path_that_tuning_never_writes_is_refused(
    name: str, hosts: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = SharedPlace(str(tmp_path / "place"))
    (tmp_path / "source").write_text("evil")
    place.publish("hosts", "mallory", {name: tmp_path / "source"})
    told = shared(hosts[0], str(tmp_path / "place"), monkeypatch)
    assert told.left_out == (f"mallory: {name} is nothing that tuning leaves",)
    assert not (tmp_path / "outside").exists() and not (hosts[0] / "devices.yml").exists()


def test_the_command_says_what_it_did(
    hosts: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(hosts[0])
    tune(DEVICE, 10.0)
    place = str(tmp_path / "place")
    assert cli.call(["artifacts", "share", place]) == 0
    assert "taken over from 0 hosts: 0 sets, 0 trials" in capsys.readouterr().out
    monkeypatch.chdir(hosts[1])
    assert cli.call(["artifacts", "share", place, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["sets"], document["given"], document["left_out"]) == (1, 4, [])


def test_a_place_that_cannot_be_reached_is_named_in_a_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(FarmError, match="file"):
        share_results(str(tmp_path / "file"), tmp_path, lambda _: None)
    with pytest.raises(ConfigError, match="nowhere://x: cannot be opened"):
        share_results("nowhere://x", tmp_path, lambda _: None)
