"""The archive of bundles: shared files, damage that is named, room that is made without what is in use."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from farm import cli
from farm.store import Store
from farm.store.bundle_archive import BundleArchive, LostBundleError, folder_of
from farm.store.pruning import IN_USE_NIGHTS, prune_bundles
from tests.farm.store.bundles import left, manifest


@pytest.fixture
def archive(tmp_path: Path) -> BundleArchive:
    return BundleArchive(tmp_path / "farm.db.bundles")


def test_bundles_share_files_and_come_back_whole(archive: BundleArchive, tmp_path: Path) -> None:
    first = left(archive, 1, tmp_path / "made", farmrt=b"program", weights=b"same")
    left(archive, 2, tmp_path / "made", farmrt=b"newer", weights=b"same")
    assert archive.summary().bundles == 2 and archive.summary().files == 3
    assert archive.summary().size_bytes == len(b"program" + b"newer" + b"same")
    assert archive.summary().oldest == "2026-01-01T00:00:00+00:00"
    files = archive.fetch(first, tmp_path / "fetched")
    assert {role: path.read_bytes() for role, path in files.items()} == {"farmrt": b"program", "weights": b"same"}
    assert files["farmrt"].stat().st_mode & 0o111 and files["weights"].name == "model.data"
    assert archive.problems() == []


def test_the_choice_that_a_plan_was_made_by_travels_and_is_no_software(archive: BundleArchive, tmp_path: Path) -> None:
    """Another model's choice changes the file of the library, but not what the unit executes."""
    first = left(archive, 1, tmp_path / "made", plan=b"plan", selection=b"{}")
    second = left(archive, 2, tmp_path / "made", plan=b"plan", selection=b"{1}")
    assert archive.fetch(first, tmp_path / "fetched")["selection"].name == "selection.json"
    assert first.is_same_software(second) and first.files != second.files
    assert not first.is_same_software(left(archive, 3, tmp_path / "made", plan=b"other", selection=b"{}"))


def test_a_damaged_file_is_refused_by_its_name_and_mended_by_the_next_night(
    archive: BundleArchive, tmp_path: Path
) -> None:
    bundle = left(archive, 1, tmp_path / "made", weights=b"content")
    (blob,) = archive.blobs()
    blob.write_bytes(b"c0ntent")
    with pytest.raises(LostBundleError, match=rf"run 1, m .*weights {blob.name} is damaged"):
        archive.fetch(bundle, tmp_path / "fetched")
    assert archive.problems() == [f"{blob}: damaged, its content has another hash"]
    left(archive, 2, tmp_path / "made", weights=b"content")
    assert archive.fetch(bundle, tmp_path / "fetched")["weights"].read_bytes() == b"content"


def test_a_file_that_is_gone_is_named(archive: BundleArchive, tmp_path: Path) -> None:
    bundle = left(archive, 1, tmp_path / "made", plan=b"plan")
    archive.blobs()[0].unlink()
    with pytest.raises(LostBundleError, match=r"plan .* is missing"):
        archive.fetch(bundle, tmp_path / "fetched")
    assert "is missing" in archive.problems()[0]


@pytest.mark.slow
def test_the_oldest_that_nothing_needs_goes_first_and_the_last_good_one_never(
    archive: BundleArchive, tmp_path: Path
) -> None:
    nights = IN_USE_NIGHTS + 3
    for night in range(1, nights + 1):
        left(archive, night, tmp_path / "made", weights=b"shared", plan=b"%04d" % night)
    everything = archive.summary().size_bytes
    pruned = prune_bundles(archive, everything - 4, baselines=[1])
    kept = [one.run for one in archive.manifests() if one.files]
    assert pruned.bundles == 1 and kept == [1, *range(3, nights + 1)], "a baseline's bundle stays"
    prune_bundles(archive, 0)
    assert [one.run for one in archive.manifests() if one.files] == [nights]
    assert {path.read_bytes() for path in archive.blobs()} == {b"shared", b"%04d" % nights}
    assert len(archive.manifests()) == nights, "what a night's duet said stays"


def test_a_file_that_no_bundle_names_goes_and_a_dry_run_removes_nothing(archive: BundleArchive, tmp_path: Path) -> None:
    left(archive, 1, tmp_path / "made", plan=b"plan")
    (archive.folder / "blobs" / ("0" * 64)).write_bytes(b"left by a process that was killed")
    assert prune_bundles(archive, 10**9, dry_run=True).files == 1 and len(archive.blobs()) == 2
    assert prune_bundles(archive, 10**9).files == 1 and len(archive.blobs()) == 1


def test_bundles_of_deleted_runs_go(archive: BundleArchive, tmp_path: Path) -> None:
    left(archive, 1, tmp_path / "made", plan=b"one")
    left(archive, 2, tmp_path / "made", plan=b"two")
    prune_bundles(archive, 10**9, runs=[2])
    assert [one.run for one in archive.manifests()] == [2]


@pytest.mark.slow
def test_a_process_that_is_killed_while_it_leaves_a_bundle_harms_none(archive: BundleArchive, tmp_path: Path) -> None:
    left(archive, 1, tmp_path / "made", plan=b"one")
    script = f"""
import os, signal
from pathlib import Path
from farm import atomic_file
from farm.store.bundle_archive import BundleArchive
from tests.farm.store.bundles import left
write = atomic_file.write
atomic_file.write = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
left(BundleArchive(Path({str(archive.folder)!r})), 2, Path({str(tmp_path / "made")!r}), plan=b"two")
"""
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == -9
    assert [one.run for one in archive.manifests()] == [1] and archive.problems() == []
    assert left(archive, 3, tmp_path / "made", plan=b"two").run == 3, "the lock died with its holder"


def test_only_the_newest_manifests_of_each_case_are_read(archive: BundleArchive) -> None:
    for run in (2, 9, 10, 11):
        archive.write(manifest(run))
        archive.write(manifest(run, "other"))
    assert [one.run for one in archive.manifests("lab", newest=2)] == [10, 10, 11, 11]
    assert archive.manifests("another lab") == []


def test_the_commands_show_verify_and_prune_bundles(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    with Store.open("farm.db") as store:
        store.begin("lab", "farm nightly lab.yml")
        archive = BundleArchive(folder_of(store.address))
    left(archive, 1, tmp_path / "made", plan=b"plan")
    assert cli.call(["store", "info", "--json", "--store", "farm.db"]) == 0
    bundles = json.loads(capsys.readouterr().out)["bundles"]
    assert (bundles["bundles"], bundles["size_bytes"], bundles["oldest"]) == (1, 4, "2026-01-01T00:00:00+00:00")
    assert cli.call(["store", "info", "--store", "farm.db"]) == 0
    assert "farm.db.bundles" in capsys.readouterr().out
    assert cli.call(["store", "verify", "--store", "farm.db"]) == 0
    (blob,) = archive.blobs()
    blob.write_bytes(b"other")
    capsys.readouterr()
    assert cli.call(["store", "verify", "--store", "farm.db"]) == 1
    assert f"{blob.name}: damaged" in capsys.readouterr().out
    blob.unlink()
    left(archive, 2, tmp_path / "made", plan=b"later")
    assert cli.call(["store", "prune", "--bundles", "0", "--store", "farm.db"]) == 0
    assert "deleted 0 runs with 0 rows, 1 bundles" in capsys.readouterr().out, "the store has no run 2"
