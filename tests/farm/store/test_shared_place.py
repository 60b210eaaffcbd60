"""A place that hosts share: what is damaged is refused, what is in use stays, and no file is held in memory."""

import json
import threading
import tracemalloc
from pathlib import Path

import fsspec
import pytest

from farm.jobs.nightly.bundles import case_of_manifest, night_bundles
from farm.jobs.nightly.sent_night import ARCHIVE, bundle_files, take_bundles
from farm.rows.run_info import RunInfo
from farm.store import shared_place
from farm.store.bundle_archive import BundleArchive, LostBundleError
from farm.store.shared_bundles import MANIFESTS, SharedBundles
from farm.store.shared_place import OBJECTS, SharedPlace
from farm.transport import file_digest
from runtime.errors import FormatError
from tests.farm.conftest import CallFarm
from tests.farm.store.bundles import left, manifest

LARGE_BYTES = 48 << 20


def made(path: Path, content: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def objects(place: str) -> set[str]:
    files, root = fsspec.core.url_to_fs(place)
    files.invalidate_cache()
    return {path.rpartition("/")[2] for path in files.ls(f"{root}/{OBJECTS}", detail=False)}


def spoil(place: str, digest: str, content: bytes) -> None:
    files, root = fsspec.core.url_to_fs(place)
    files.pipe_file(f"{root}/{OBJECTS}/{digest}", content)


@pytest.mark.parametrize("rubbish", [b"half", b"CONTENT"], ids=["half written", "other content"])
def test_a_damaged_object_is_refused_and_a_half_written_one_sent_again(
    place: str, tmp_path: Path, rubbish: bytes
) -> None:
    shared, file, target = SharedPlace(place), made(tmp_path / "file", b"content"), tmp_path / "target"
    assert shared.publish("hosts", "alpha", {"f": file}) == len(b"content")
    digest = shared.files_of("hosts", "alpha")["f"]
    spoil(place, digest, rubbish)
    target.write_bytes(b"as before")
    with pytest.raises(FormatError, match=rf"{place}: objects/{digest} is damaged"):
        shared.fetch(digest, target)
    assert target.read_bytes() == b"as before" and not list(tmp_path.glob(".target*"))
    is_half = len(rubbish) < len(b"content")
    assert shared.publish("hosts", "alpha", {"f": file}) == (len(b"content") if is_half else 0)
    if is_half:
        assert shared.fetch(digest, target) and target.read_bytes() == b"content"
    assert not shared.fetch("0" * 64, target), "is not there"


def test_what_nobody_names_goes_after_a_day(place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shared, file = SharedPlace(place), made(tmp_path / "file", b"old")
    both = made(tmp_path / "both", b"of both")
    shared.publish("hosts", "alpha", {"f": file, "b": both})
    shared.publish("bundles", "beta", {"b": both})
    old, of_both = (file_digest.sha256(path) for path in (file, both))
    spoil(place, "1" * 64, b"of a host that died")
    new = file_digest.sha256(made(file, b"new"))
    shared.publish("hosts", "alpha", {"f": file})
    assert objects(place) == {old, new, of_both, "1" * 64}, "somebody may rely on it"
    assert shared.publish("hosts", "gamma", {"f": made(tmp_path / "again", b"old")}) == len(b"old"), "or may not"
    shared.publish("hosts", "gamma", {})
    monkeypatch.setattr(shared_place, "KEPT_S", -1.0)
    files, root = fsspec.core.url_to_fs(place)
    content = files.cat_file(f"{root}/bundles/beta.json")
    files.pipe_file(f"{root}/bundles/beta.json", b"[")
    for host in ("alpha", "gamma"):
        shared.publish("hosts", host, {"f": file})
    assert objects(place) == {old, new, of_both, "1" * 64}, "nobody knows what beta has"
    files.pipe_file(f"{root}/bundles/beta.json", content)
    shared.publish("hosts", "alpha", {"f": file})
    assert objects(place) == {new, of_both}


def test_hosts_that_write_at_once_lose_nothing(place: str, tmp_path: Path) -> None:
    def publish(host: str, failed: list[BaseException]) -> None:
        try:
            for turn in range(12):
                common = made(tmp_path / host / "common", b"common %d" % (turn // 2))
                own = made(tmp_path / host / "own", f"{host} {turn}".encode())
                SharedPlace(place).publish("bundles", host, {"common": common, "own": own})
        except BaseException as error:
            failed.append(error)

    failed: list[BaseException] = []
    threads = [threading.Thread(target=publish, args=(f"host{number}", failed)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
    shared = SharedPlace(place)
    assert shared.hosts("bundles") == [f"host{number}" for number in range(4)]
    for host in shared.hosts("bundles"):
        given = shared.files_of("bundles", host)
        assert all(shared.fetch(digest, tmp_path / "got" / host / name) for name, digest in given.items())
        assert (tmp_path / "got" / host / "own").read_text() == f"{host} 11"
        assert (tmp_path / "got" / host / "common").read_bytes() == b"common 5"
    assert all(len(name) == 64 for name in objects(place)), "nothing is left half written"


@pytest.mark.slow
def test_a_large_file_is_never_held_in_memory(tmp_path: Path) -> None:
    shared, large = SharedPlace(str(tmp_path / "place")), made(tmp_path / "large", bytes(LARGE_BYTES))
    tracemalloc.start()
    try:
        assert shared.publish("bundles", "alpha", {"large": large}) == LARGE_BYTES
        assert shared.fetch(file_digest.sha256(large), tmp_path / "got")
        peak_bytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak_bytes < LARGE_BYTES / 4 and (tmp_path / "got").stat().st_size == LARGE_BYTES


def test_a_file_that_grows_meanwhile_is_sent_as_it_is_then(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a journal does, into which somebody tunes."""
    shared, journal = SharedPlace(place), made(tmp_path / "journal", b"1\n")
    files = fsspec.core.url_to_fs(place)[0]
    put, turns = files.put_file, list[int]()

    def grown(source: str, target: str) -> None:
        if not turns:
            journal.write_bytes(b"1\n2\n")
        turns.append(1)
        put(source, target)

    monkeypatch.setattr(files, "put_file", grown)
    shared.publish("hosts", "alpha", {"journal": journal})
    digest = shared.files_of("hosts", "alpha")["journal"]
    assert len(turns) == 2 and objects(place) == {digest}
    assert shared.fetch(digest, tmp_path / "got") and (tmp_path / "got").read_bytes() == b"1\n2\n"


TONIGHT = RunInfo(9, "lab", "", "2026-01-09T00:00:00+00:00")
RUNS = [RunInfo(run, "lab", "", manifest(run).started, state="finished") for run in (1, 2)]


@pytest.fixture
def first(place: str, tmp_path: Path) -> SharedBundles:
    return SharedBundles(SharedPlace(place), tmp_path / "first")


@pytest.fixture
def second(place: str, tmp_path: Path) -> SharedBundles:
    return SharedBundles(SharedPlace(place), tmp_path / "second")


def spoil_bundles(place: str, digest: str) -> None:
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
    spoil_bundles(place, digest)
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
