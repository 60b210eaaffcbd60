"""A store on a file system that several machines share has no write-ahead log."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from farm.store import Store
from farm.store.sqlite_file import journal_mode
from tests.farm.store.rows import a_row


def mounted(monkeypatch: pytest.MonkeyPatch, *mounts: tuple[Path, str]) -> None:
    found = [SimpleNamespace(mountpoint=str(folder), fstype=kind) for folder, kind in mounts]
    monkeypatch.setattr(psutil, "disk_partitions", lambda all: found)


def kept_journal(path: Path) -> str:
    connection = sqlite3.connect(path)
    try:
        return str(connection.execute("PRAGMA journal_mode").fetchone()[0])
    finally:
        connection.close()


@pytest.mark.parametrize(
    ("kind", "mode"),
    [("ext4", "WAL"), ("tmpfs", "WAL"), ("nfs4", "DELETE"), ("cifs", "DELETE"), ("fuse.sshfs", "DELETE")],
)
def test_the_innermost_mount_decides(kind: str, mode: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mounted(monkeypatch, (Path("/"), "9p"), (tmp_path, "fuse.gocryptfs"), (tmp_path / "lab", kind))
    assert journal_mode(tmp_path / "lab/reports/farm.db") == mode
    assert journal_mode(tmp_path / "laboratory/farm.db") == "WAL"
    assert journal_mode(Path("/elsewhere/farm.db")) == "DELETE"


def test_a_shared_store_has_no_log_and_one_that_is_moved_there_loses_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for kind, mode in (("ext4", "wal"), ("nfs", "delete")):
        mounted(monkeypatch, (tmp_path, kind))
        for name in ("moved.db", f"{kind}.db"):
            with Store.open(str(tmp_path / name)) as store:
                store.add(store.begin("run", ""), [a_row(unit="mi8")])
            assert kept_journal(tmp_path / name) == mode
    with Store.open(str(tmp_path / "moved.db")) as store:
        assert len(list(store.rows())) == 2
