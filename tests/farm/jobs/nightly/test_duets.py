"""Nights with duets on emulated phones: slower software, a slower phone, lost bundles, a duet that is killed."""

import shutil
import signal
import time
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

from farm.jobs.compare.bundle import PLAN_FILE
from farm.jobs.compare.duet import Entry
from farm.jobs.fleet.unit import OpenUnit
from farm.jobs.nightly import duets
from farm.rows.bundle import BundleManifest
from farm.rows.duet import DuetFigures
from farm.rows.nightly import Block, NightlyRow
from farm.store import Store
from farm.store.bundle_archive import BundleArchive, folder_of
from farm.workspace import data_file
from tests.farm.emulated_units import EmulatedUnits, is_clean, wait_for_result
from tests.farm.jobs.nightly.nightly_command import nightly
from tests.farm.model.tiny_model import FLOAT, model_of, write_deployment

pytestmark = [pytest.mark.slow, pytest.mark.opencl, pytest.mark.usefixtures("untold_waits")]

FILE = """
models: tiny.yml
units: [{all: yes}]
runtimes: gpu
jobs: [benchmark]
repeats: 2
rounds: 3
rest_seconds: 0.1
most_rests: 1
most_reruns: 0
"""


def chain(length: int, scale: float = 0.3) -> onnx.ModelProto:
    """x [N,3,8,8] -> `length` convolutions -> y; its time goes with its length."""
    random = np.random.default_rng(3)
    names = ["x", *(f"t{number}" for number in range(length - 1)), "y"]
    nodes = [
        helper.make_node("Conv", [names[number], f"w{number}"], [names[number + 1]], f"c{number}", pads=[1, 1, 1, 1])
        for number in range(length)
    ]
    weights = {f"w{number}": random.normal(0, scale, (3, 3, 3, 3)) for number in range(length)}
    shape = ["N", 3, 8, 8]
    ends = [[helper.make_tensor_value_info(name, FLOAT, shape)] for name in ("x", "y")]
    return model_of(nodes, *ends, weights)


@pytest.fixture(autouse=True)
def lab(tmp_path: Path) -> None:
    (tmp_path / "lab.yml").write_text(FILE)


@pytest.fixture
def planted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two pairs of processes run, the others repeat the last one; a round takes a ms for each byte of weights."""
    run_turn, measured = duets.run_turn, list[tuple[Block, Block]]()

    def turn(opened: OpenUnit, entries: tuple[Entry, Entry], *more: Any) -> tuple[Block, ...]:
        if len(measured) < 2:
            measured.append(run_turn(opened, entries, *more))
        sizes = (float(data_file(entry.folder / PLAN_FILE).stat().st_size) for entry in entries)
        pairs = zip(measured[-1], sizes, strict=True)
        return tuple(block.model_copy(update={"samples": (ms,) * len(block.samples)}) for block, ms in pairs)

    monkeypatch.setattr(duets, "run_turn", turn)


def stored() -> tuple[NightlyRow, DuetFigures]:
    """The row of the newest run, and its duet."""
    with Store.open() as store:
        (row,) = store.nightly_rows(store.runs(name="lab", limit=1)[0].id)
    assert row.duet is not None
    return row, row.duet


def archive() -> BundleArchive:
    with Store.open() as store:
        return BundleArchive(folder_of(store.address))


def bundles() -> list[BundleManifest]:
    return [manifest for manifest in archive().manifests("lab") if manifest.files]


def latency(verdict: dict[str, Any]) -> dict[str, Any]:
    """What the verdict says of the latency."""
    found = [each for each in verdict["series"] if each["metric"] == "latency_ms"]
    assert len(found) == 1, verdict
    return dict(found[0])


@pytest.mark.usefixtures("planted")
def test_slower_software_is_a_regression_on_its_first_night(emulated: EmulatedUnits, capsys: Any) -> None:
    phone = emulated.phone()
    write_deployment(emulated.folder, chain(4))
    assert nightly(capsys)[0] == 0
    _, first = stored()
    assert first.fallback == "there is no bundle of an earlier night to compare with"
    (kept,) = bundles()
    assert set(kept.files) == {"farmrt", "plan", "weights"} and kept.facts["android"] and kept.facts["driver"]
    write_deployment(emulated.folder, chain(12))
    status, verdict, err = nightly(capsys)
    row, duet = stored()
    assert status == 1, err
    assert (duet.against, duet.verdict, latency(verdict)["verdict"]) == (1, "slower", "regression")
    assert duet.ratio and duet.ratio > 1.2 and duet.ratio_ci and duet.ratio_ci[0] > 1.02 and len(duet.pairs) >= 16
    assert duet.seconds > 0 and duet.share == pytest.approx(duet.seconds / row.busy_s, rel=0.01)
    assert "the software: +" in latency(verdict)["reason"] and "against that of run 1" in latency(verdict)["reason"]
    assert [one.run for one in bundles()] == [1], "what is worse is no bundle to compare with"
    assert is_clean(phone)
    write_deployment(emulated.folder, chain(4))
    status, verdict, _ = nightly(capsys)
    _, mended = stored()
    assert status == 0 and mended.identical and mended.verdict == "same" and not mended.pairs


def add_quiet_nights(count: int) -> None:
    """Nights four times as fast as the fastest round that was measured, with a noise of 2 %.

    This machine may be busy: so the nights before are made up, and tonight is slower than they were whatever happens.
    """
    random, (row, _) = np.random.default_rng(5), stored()
    level_ms = min(sample for block in row.blocks for sample in block.samples) / 4
    for _ in range(count):
        blocks = [
            block.model_copy(update={"samples": (level_ms * float(np.exp(random.normal(0, 0.02))),)})
            for block in row.blocks * 3
        ]
        with Store.open() as store:
            run = store.begin("lab", "farm nightly lab.yml")
            store.add(run, [row.model_copy(update={"blocks": tuple(blocks), "duet": None})])
            store.end(run)


@pytest.mark.parametrize("rebuilt", [False, True], ids=["the same bytes", "other bytes"])
@pytest.mark.usefixtures("planted")
def test_a_slower_phone_is_no_regression_and_its_update_is_named(
    emulated: EmulatedUnits, capsys: Any, rebuilt: bool
) -> None:
    phone = emulated.phone()
    write_deployment(emulated.folder, chain(4))
    assert nightly(capsys)[0] == 0
    add_quiet_nights(6)
    if rebuilt:
        write_deployment(emulated.folder, chain(4, 0.31))
    phone.inject("property:name=ro.build.fingerprint,value=vendor/update:15")
    status, verdict, err = nightly(capsys)
    _, duet = stored()
    told = latency(verdict)
    assert status == 0 and duet.suspected and duet.identical == (not rebuilt), err
    assert any("build: " in fact and "vendor/update:15 tonight" in fact for fact in duet.environment)
    if rebuilt:
        assert len(duet.pairs) >= 6 and duet.verdict == "same"
        assert told["verdict"] == "environment_changed"
    else:
        assert (told["verdict"], duet.verdict) == ("environment_changed", "same") and not duet.pairs
        assert told["ratio"] > 1.3, "the level moved"
        assert told in verdict["environment_changes"] and verdict["outcome"] == "nothing worse"
        assert "vendor/update:15" in told["reason"] and bundles()[-1].run == verdict["run"]


def test_a_lost_bundle_is_said_and_the_nights_before_decide(emulated: EmulatedUnits, capsys: Any) -> None:
    emulated.phone()
    write_deployment(emulated.folder, chain(4))
    assert nightly(capsys)[0] == 0
    (kept,) = bundles()
    (archive().folder / "blobs" / kept.files["plan"]).write_bytes(b"damaged")
    write_deployment(emulated.folder, chain(12))
    _, verdict, _ = nightly(capsys)
    _, duet = stored()
    assert latency(verdict)["verdict"] == "new" and not duet.verdict and not duet.pairs
    assert f"plan {kept.files['plan']} is damaged" in duet.fallback and "run 1" in duet.fallback


@pytest.mark.usefixtures("planted")
def test_another_host_compares_with_a_bundle_that_the_first_one_shared(
    emulated: EmulatedUnits, capsys: Any, tmp_path: Path
) -> None:
    """Both have one store; the second has an archive of its own, and never keeps what the first one left."""
    emulated.phone()
    place, nowhere = str(tmp_path / "place"), tmp_path / "file"
    nowhere.write_text("")
    write_deployment(emulated.folder, chain(4))
    assert nightly(capsys, "--share", place)[0] == 0
    shutil.rmtree(archive().folder)
    write_deployment(emulated.folder, chain(12))
    status, _, err = nightly(capsys, "--share", place)
    _, duet = stored()
    assert (status, duet.against, duet.verdict) == (1, 1, "slower"), err
    assert [one.run for one in archive().manifests("lab")] == [2] and not archive().blobs()
    write_deployment(emulated.folder, chain(4))
    status, _, err = nightly(capsys, "--share", str(nowhere))
    assert status == 0 and f"bundles are not shared: {nowhere}" in err
    assert stored()[1].fallback == "there is no bundle of an earlier night to compare with"


def test_a_duet_that_was_killed_goes_on_with_its_pairs(emulated: EmulatedUnits, capsys: Any) -> None:
    emulated.phone()
    write_deployment(emulated.folder, chain(4))
    assert nightly(capsys)[0] == 0
    write_deployment(emulated.folder, chain(12))
    process = emulated.start("nightly", "lab.yml")
    pairs: list[dict[str, Any]] = []
    end_s = time.monotonic() + 300
    while len(pairs) < 3:
        assert time.monotonic() < end_s
        assert process.poll() is None, wait_for_result(process)
        time.sleep(0.1)
        with Store.open() as store:
            newest = store.runs(name="lab", limit=1)[0].id
            pairs = [data for key, data in store.progress(newest) if key.startswith("duet: ")]
    process.send_signal(signal.SIGKILL)
    process.wait()
    with Store.open() as store:
        pairs = [data for key, data in store.progress(newest) if key.startswith("duet: ")]
    wait_for_result(process)
    status, _, err = nightly(capsys, "--resume", "--wait", "120")
    row, duet = stored()
    assert status == 1 and (duet.verdict == "slower" or duet.busy), (
        err
    )  # the first process knew how busy this machine is
    assert [pair.model_dump(mode="json") for pair in duet.pairs[: len(pairs)]] == pairs, "nothing is measured twice"
    assert row.file_bytes, "what is looked at once a night is looked at, although all blocks were there"


def test_without_a_limit_for_bundles_nothing_is_left(emulated: EmulatedUnits, capsys: Any) -> None:
    emulated.phone()
    Path("lab.yml").write_text(f"{FILE}bundle_limit_mb: 0\n")
    assert nightly(capsys)[0] == 0
    with Store.open() as store:
        (row,) = store.nightly_rows(1)
    assert row.duet is None and not archive().folder.exists()
