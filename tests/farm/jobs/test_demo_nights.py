"""The nights of the demonstration begin anew each time that it is called."""

from __future__ import annotations

from pathlib import Path

from farm.jobs.demo.nights import remove_store
from farm.store import Store
from farm.store.address import parse_address
from farm.store.bundle_archive import BundleArchive, folder_of
from tests.farm.store.bundles import left


def test_a_store_is_removed_with_its_bundles_and_nothing_else(tmp_path: Path) -> None:
    file = tmp_path / "emulated_farm.db"
    other = tmp_path / "farm.db"
    other.write_bytes(b"kept")
    with Store.open(str(file)):
        archive = BundleArchive(folder_of(parse_address(str(file))))
        left(archive, 1, tmp_path / "made", farmrt=b"program")
    remove_store(file)
    remove_store(file)  # what is not there is no fault
    assert sorted(path.name for path in tmp_path.iterdir()) == ["farm.db", "made"]
    with Store.open(str(file)):
        assert archive.summary().bundles == 0
