"""Bundles of nights over a place: another host finds them, fetches what it needs, and trusts nothing damaged."""

from __future__ import annotations

import json
from pathlib import Path

import fsspec
import pytest

from farm.jobs.nightly.bundles import case_of_manifest, night_bundles
from farm.jobs.nightly.sent_night import ARCHIVE, bundle_files, take_bundles
from farm.rows.run_info import RunInfo
from farm.store.bundle_archive import BundleArchive, LostBundleError
from farm.store.shared_bundles import MANIFESTS, SharedBundles
from farm.store.shared_place import SharedPlace
from tests.farm.conftest import CallFarm
from tests.farm.store.bundles import left, manifest

TONIGHT = RunInfo(9, "lab", "", "2026-01-09T00:00:00+00:00")
RUNS = [RunInfo(run, "lab", "", manifest(run).started, state="finished") for run in (1, 2)]


@pytest.fixture
def first(place: str, tmp_path: Path) -> SharedBundles:
    return SharedBundles(SharedPlace(place), tmp_path / "first")


@pytest.fixture
def second(place: str, tmp_path: Path) -> SharedBundles:
    return SharedBundles(SharedPlace(place), tmp_path / "second")


def spoil(place: str, digest: str) -> None:
    files, root = fsspec.core.url_to_fs(place)
    files.pipe_file(f"{root}/objects/{digest}", b"x")


def test_another_host_uses_what_the_first_one_left(
    first: SharedBundles, second: SharedBundles, place: str, tmp_path: Path
) -> None:
    bundle = left(first.archive(), 1, tmp_path / "made", farmrt=b"program", plan=b"plan", weights=b"weights")
    own = left(second.archive(), 2, tmp_path / "made", plan=b"other", weights=b"weights")
    left(second.archive(), 3, tmp_path / "made", plan=b"of another store")
    assert first.publish() == (1, len(b"programplanweights") + _size_of_list(place))
    assert first.publish() == (1, 0)
    assert second.publish()[0] == 2
    found, left_out = second.manifests("lab")
    assert found == [bundle] and not left_out and not second.manifests("other")[0]
    night = night_bundles(second.archive(), TONIGHT, RUNS, found)
    case = case_of_manifest(bundle)
    assert night.before(case) == [bundle, own], "in the order of nights, of runs that the store knows"
    before = {path.name for path in night.archive.blobs()}
    files = night.archive.fetch(bundle, tmp_path / "fetched")
    assert {role: path.read_bytes() for role, path in files.items()} == {
        "farmrt": b"program",
        "plan": b"plan",
        "weights": b"weights",
    }
    assert files["farmrt"].stat().st_mode & 0o111
    assert {path.name for path in night.archive.blobs()} == before, "nothing of others is kept, whatever the limit"

    sent = bundle_files(night, case, tmp_path / "scratch")
    assert {Path(name).name for name in sent} == {*bundle.files.values(), *own.files.values()}
    there = left(BundleArchive(tmp_path / "received" / ARCHIVE), 9, tmp_path / "made", plan=b"new", farmrt=b"program")
    (tmp_path / "received" / ARCHIVE / "blobs" / there.files["farmrt"]).unlink()  # as it was sent, not given back
    take_bundles(night, tmp_path / "received")
    assert night.archive.manifests("lab")[-1].files == there.files and not night.archive.problems()


def _size_of_list(place: str) -> int:
    files, root = fsspec.core.url_to_fs(place)
    (listed,) = files.ls(f"{root}/bundles", detail=False)
    return int(files.size(f"{root}/objects/{json.loads(files.cat_file(listed))['files'][MANIFESTS]}"))


def test_what_is_lost_or_damaged_is_named_and_never_used(
    first: SharedBundles, second: SharedBundles, place: str, tmp_path: Path
) -> None:
    bundle = left(first.archive(), 1, tmp_path / "made", plan=b"plan", weights=b"weights")
    first.publish()
    digest = bundle.files["plan"]
    spoil(place, digest)
    with pytest.raises(LostBundleError, match=rf"run 1, m .*: plan {digest} is missing in .*objects/{digest} is dam"):
        second.archive().fetch(bundle, tmp_path / "fetched")
    assert not (tmp_path / "fetched" / "model.plan").exists()
    lost = bundle.model_copy(update={"files": {"plan": "0" * 64}})
    with pytest.raises(LostBundleError, match=f"plan 0+ is missing in .* and missing in {place}"):
        second.archive().fetch(lost, tmp_path / "fetched")
    first.archive().leave(manifest(1), {"weights": tmp_path / "made" / "1.weights"})
    blob = second.archive().blob(digest)
    blob.parent.mkdir(parents=True)
    blob.write_bytes(b"damaged here")
    first.archive().leave(bundle, {"plan": tmp_path / "made" / "1.plan"})
    first.publish()
    assert second.archive().fetch(bundle, tmp_path / "fetched")["plan"].read_bytes() == b"plan", "mended from elsewhere"


@pytest.mark.parametrize(
    "files", [{"../../evil": "0" * 64}, {"plan": "../../../etc/passwd"}, {"plan": 5}], ids=["role", "hash", "type"]
)
def test_a_manifest_that_farm_never_writes_is_left_out(
    second: SharedBundles, place: str, tmp_path: Path, files: dict[str, object]
) -> None:
    evil = tmp_path / "evil"
    evil.write_text(json.dumps({**manifest(1).model_dump(mode="json"), "files": files}))
    SharedPlace(place).publish("bundles", "mallory", {MANIFESTS: evil})
    found, left_out = second.manifests("lab")
    assert not found and len(left_out) == 1 and left_out[0].startswith(f"bundles of mallory: {place}: {MANIFESTS} ")


def test_the_command_shares_bundles_too(farm: CallFarm, own_folder: Path, place: str) -> None:
    left(BundleArchive(own_folder / "lab.db.bundles"), 1, own_folder / "made", plan=b"plan")
    status, out, _ = farm("artifacts", "share", place, "--store", "lab.db", "--json")
    told = json.loads(out)
    assert (status, told["bundles"], told["given"]) == (0, 1, 0) and told["sent_bytes"] > 4
    assert "0 files and 1 bundles" in farm("artifacts", "share", place, "--store", "lab.db")[1]
    assert not list(own_folder.glob("lab.db")), "no store is made for it"
    (found,), _ = SharedBundles(SharedPlace(place), own_folder / "elsewhere").manifests("lab")
    assert (found.name, found.run) == ("lab", 1)
