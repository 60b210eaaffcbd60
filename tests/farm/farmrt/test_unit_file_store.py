"""The store on a unit: sent once, found again, and the longest unused goes first."""

import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from farm.farmrt import unit_file_store
from farm.farmrt.unit_file_store import UnitFileStore, UnitFolder
from farm.transport import storage
from farm.transport.local import LocalTransport
from runtime.errors import DeviceError, JobError, LeaseLostError
from tests.farm.transport.unit_shells import SHELLS, shell_environment


class Counting(LocalTransport):
    """Counts round trips, and may have no room for the next pushes."""

    full = 0
    trips = 0

    def run(self, *arguments: Any, **others: Any) -> Any:
        self.trips += 1
        return super().run(*arguments, **others)

    def push(self, files: Mapping[str, Path]) -> list[str]:
        self.trips += 1
        if self.full:
            self.full -= 1
            raise storage.refusal_error("no space left on device")
        return super().push(files)


@pytest.fixture
def unit(tmp_path: Path) -> Counting:
    return Counting(tmp_path / "unit")


@pytest.fixture(params=SHELLS)
def any_unit(request: pytest.FixtureRequest, tmp_path: Path) -> Counting:
    return Counting(tmp_path / "unit", shell_environment(request.param, tmp_path / "bin"))


def make(folder: Path, name: str, content: bytes = b"", mode: int = 0o644) -> Path:
    path = folder / name
    path.write_bytes(content or name.encode())
    path.chmod(mode)
    return path


def names(unit: Counting) -> list[str]:
    return [file.name for file in unit_file_store.read(unit).removal_order()]


def age(folder: Path, remote: str, days: int) -> None:
    path = folder / "unit" / remote
    time_s = path.stat().st_mtime - days * 86_400
    os.utime(path, (time_s, time_s))


def test_a_file_is_sent_once_and_found_by_its_content(unit: Counting, tmp_path: Path) -> None:
    first, second = make(tmp_path, "a.plan", b"same"), make(tmp_path, "b.data", b"same")
    remotes = UnitFileStore(unit).put([first])
    assert (tmp_path / "unit" / remotes[first]).read_bytes() == b"same"
    assert UnitFileStore(unit).put([second])[second] == remotes[first]
    assert len(names(unit)) == 1


def test_files_that_the_unit_has_cost_one_round_trip(unit: Counting, tmp_path: Path) -> None:
    files = [make(tmp_path, f"file{number}") for number in range(10)]
    UnitFileStore(unit).put(files)
    store, unit.trips = UnitFileStore(unit), 0
    store.put(files)
    assert unit.trips == 1


def test_a_program_stays_executable_and_keeps_its_name(unit: Counting, tmp_path: Path) -> None:
    script = make(tmp_path, "farm rt", b"#!/bin/sh\nexit 7\n", 0o755)
    remote = UnitFileStore(unit).put([script])[script]
    assert remote.endswith("/farm_rt")
    assert unit.run([remote], 10.0).exit_status == 7


def test_a_file_that_changes_is_another_file(unit: Counting, tmp_path: Path) -> None:
    store, path = UnitFileStore(unit), make(tmp_path, "x", b"one")
    old = store.put([path])[path]
    new = store.put([make(tmp_path, "x", b"two!")])[path]
    assert old != new and len(names(unit)) == 2


def test_the_least_recently_used_files_are_removed_first(any_unit: Counting, tmp_path: Path) -> None:
    files = [make(tmp_path, f"file{number}", bytes([number]) * 1000) for number in range(4)]
    with UnitFileStore(any_unit) as store:
        remotes = store.put(files)
    for days, path in zip((5, 4, 3, 2), files, strict=True):
        age(tmp_path, remotes[path], days)
    with UnitFileStore(any_unit) as store:
        store.put([files[0]])  # the oldest is used again
    with UnitFileStore(any_unit, limit_bytes=3000) as store:
        new = make(tmp_path, "new", b"n" * 1000)
        remotes |= store.put([new])
    assert set(names(any_unit)) == {remotes[path] for path in (files[0], files[3], new)}


def test_files_of_the_job_stay_even_beyond_the_limit(unit: Counting, tmp_path: Path) -> None:
    files = [make(tmp_path, f"file{number}", bytes([number]) * 1000) for number in range(4)]
    store = UnitFileStore(unit, limit_bytes=10)
    for path in files:
        store.put([path])
    assert len(names(unit)) == 4


def test_the_store_takes_at_most_half_of_the_storage(
    unit: Counting, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = make(tmp_path, "old", b"o" * 1000)
    UnitFileStore(unit).put([old])
    real = unit_file_store.parse
    monkeypatch.setattr(unit_file_store, "parse", lambda output: UnitFolder(real(output).files, free_bytes=1000))
    new = make(tmp_path, "new", b"n" * 1000)
    remote = UnitFileStore(unit).put([new])[new]
    assert names(unit) == [remote]


def test_on_a_full_unit_unused_files_are_removed(unit: Counting, tmp_path: Path, monkeypatch: Any) -> None:
    old, new = make(tmp_path, "old"), make(tmp_path, "new")
    UnitFileStore(unit).put([old])
    real = unit_file_store.parse
    monkeypatch.setattr(unit_file_store, "parse", lambda output: UnitFolder(real(output).files, free_bytes=0))
    unit.full = 1
    remote = UnitFileStore(unit).put([new])[new]
    assert names(unit) == [remote]


def test_a_quota_that_df_does_not_tell_makes_unused_files_give_way(unit: Counting, tmp_path: Path) -> None:
    for index, name in enumerate(("a", "b", "c")):
        path = make(tmp_path, name, name.encode() * 5000)
        age(tmp_path, UnitFileStore(unit).put([path])[path], 9 - index)
    kept = names(unit)[2]
    unit.full = 2
    remote = UnitFileStore(unit).put([new := make(tmp_path, "new")])[new]
    assert set(names(unit)) == {kept, remote}


def test_a_unit_that_is_full_of_other_things_is_an_error(unit: Counting, tmp_path: Path) -> None:
    unit.full = 9
    with pytest.raises(DeviceError, match="no space left"):
        UnitFileStore(unit).put([make(tmp_path, "new")])


def test_incomplete_files_are_removed(unit: Counting, tmp_path: Path) -> None:
    folder = tmp_path / "unit" / "objects" / ("0" * 64)
    folder.mkdir(parents=True)
    (folder / ".data.tmp123456").write_bytes(b"half")
    (tmp_path / "unit" / "push-0123456789abcdef").mkdir()
    (tmp_path / "unit" / "push-0123456789abcdef" / "0").write_bytes(b"half")
    path = make(tmp_path, "x")
    remote = UnitFileStore(unit).put([path])[path]
    assert names(unit) == [remote]
    assert sorted(path.name for path in (tmp_path / "unit").iterdir()) == ["objects"]
    assert not folder.exists()


def test_without_the_lease_nothing_is_sent_or_removed(unit: Counting, tmp_path: Path) -> None:
    UnitFileStore(unit).put([make(tmp_path, "mine")])
    before = names(unit)

    def lost() -> None:
        raise LeaseLostError("pixel: lost")

    with pytest.raises(LeaseLostError), UnitFileStore(unit, limit_bytes=1, check=lost) as store:
        store.put([make(tmp_path, "other")])
    assert names(unit) == before
    checks = iter([lambda: None, lost])
    with pytest.raises(LeaseLostError):
        UnitFileStore(unit, limit_bytes=1, check=lambda: next(checks)()).put([make(tmp_path, "other")])
    assert set(before) < set(names(unit))


def test_a_local_file_that_is_not_there_is_an_error(unit: Counting, tmp_path: Path) -> None:
    with pytest.raises(JobError, match="missing: cannot be read"):
        UnitFileStore(unit).put([tmp_path / "missing"])


def test_hidden_files_do_not_belong_to_the_store(any_unit: Counting, tmp_path: Path) -> None:
    (tmp_path / "unit" / ".lease").mkdir()
    (tmp_path / "unit" / ".lease" / "1.beat").write_text("5")
    (tmp_path / "unit" / "scratch").mkdir()
    (tmp_path / "unit" / "scratch" / "output0.bin").write_bytes(b"1234")
    contents = unit_file_store.read(any_unit)
    assert [(file.name, file.size_bytes) for file in contents.files] == [("scratch/output0.bin", 4)]
    assert contents.removal_order() == []
    unit_file_store.remove(any_unit, contents.files)
    assert sorted(path.name for path in (tmp_path / "unit").iterdir()) == [".lease"]


def test_free_bytes_are_those_of_the_file_system(unit: Counting, tmp_path: Path) -> None:
    free_bytes = unit_file_store.read(unit).free_bytes
    assert free_bytes is not None
    assert free_bytes == pytest.approx(shutil.disk_usage(tmp_path).free, rel=0.2)


def test_free_bytes_are_read_in_all_shells(any_unit: Counting) -> None:
    assert unit_file_store.read(any_unit).free_bytes


@pytest.mark.slow
@given(st.text(max_size=400))
def test_any_listing_is_read(output: str) -> None:
    for file in unit_file_store.parse(output).files:
        assert file.size_bytes >= 0 and file.idle_s >= 0


def test_a_name_that_leaves_the_folder_is_never_removed(unit: Counting) -> None:
    listed = unit_file_store.parse("now 100\nfile 1 1 ./../../etc/passwd\n")
    with pytest.raises(DeviceError):
        unit_file_store.remove(unit, listed.files)


def test_cleaning_removes_files_unused_for_the_given_time(any_unit: Counting, tmp_path: Path) -> None:
    old, new = make(tmp_path, "old", b"o" * 100), make(tmp_path, "new", b"n" * 10)
    remotes = UnitFileStore(any_unit).put([old, new])
    age(tmp_path, remotes[old], 8)
    (tmp_path / "unit" / ".governors").write_text("")
    week_s = 7 * 86_400.0
    would = unit_file_store.clean(any_unit, week_s, dry_run=True)
    assert (would.files, would.size_bytes, would.left_bytes) == (1, 100, 10) and len(names(any_unit)) == 2
    assert unit_file_store.clean(any_unit, week_s).files == 1
    assert names(any_unit) == [remotes[new]]
    assert unit_file_store.clean(any_unit).size_bytes == 10
    assert sorted(path.name for path in (tmp_path / "unit").iterdir()) == [".governors"]
