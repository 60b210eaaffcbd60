"""Stores that are damaged, locked, full, read-only or out of reach: one line each, and nothing is overwritten."""

import contextlib
import os
import re
import resource
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import psutil
import psycopg
import pytest
import sqlalchemy as sa

from farm.store import Store, engine, summary
from farm.store.sqlite_file import journal_mode
from runtime.errors import FarmError, FormatError, StoreError
from tests.farm.disks import disk_at, fill
from tests.farm.store.postgresql_server import postgresql
from tests.farm.store.rows import a_row


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A store of some pages with a run."""
    found = tmp_path / "farm.db"
    with Store.open(str(found)) as store:
        store.add(store.begin("run", ""), [a_row(unit=f"unit{number}") for number in range(40)])
    return found


@pytest.mark.slow
@pytest.mark.parametrize("damage", ["truncated", "garbage", "no header", "no text"])
def test_a_damaged_file_is_reported_and_copied_aside_once(path: Path, damage: str) -> None:
    content = path.read_bytes()
    spoiled = {
        "truncated": content[:9000],
        "garbage": b"\x1b[31mno store" * 999,
        "no header": bytes(100) + content[100:],
        "no text": content.replace(b"CREATE TABLE runs", b"CRE\xc7TE TABLE runs"),
    }
    path.write_bytes(spoiled[damage])
    for _ in range(2):
        with pytest.raises(FormatError, match=re.escape(f"{path}: damaged (")) as caught:
            Store.open(str(path))
    assert str(caught.value).isprintable() and "move it away to begin a new store" in str(caught.value)
    (copy,) = path.parent.glob("*.damaged-*")
    assert copy.name in str(caught.value)
    assert copy.read_bytes() == path.read_bytes() == spoiled[damage]


def test_an_empty_file_counts_as_damaged(tmp_path: Path) -> None:
    path = tmp_path / "farm.db"
    path.touch()
    with pytest.raises(FormatError, match=r"farm.db: damaged \(an empty file\); delete it to begin a new store"):
        Store.open(str(path))
    assert path.stat().st_size == 0


def test_damage_inside_the_file_is_reported_when_it_is_read(path: Path) -> None:
    content = bytearray(path.read_bytes())
    for page in range(len(content) // 2, len(content), 4096):
        content[page // 4096 * 4096 : page // 4096 * 4096 + 64] = b"\xff" * 64
    path.write_bytes(content)
    with Store.open(str(path)) as store:
        with pytest.raises(FormatError, match=r"farm.db: damaged \(database disk image is malformed\); copied to"):
            list(store.rows())
        with pytest.raises(FormatError, match=r"farm.db: damaged"):
            summary.summary(store)
    assert path.read_bytes() == bytes(content)


def test_a_log_whose_store_was_deleted_spoils_no_new_one(path: Path) -> None:
    with Store.open(str(path)) as store:
        store.add(1, [a_row(unit=f"more{number}") for number in range(40)])
        log = path.with_name("farm.db-wal").read_bytes()
        path.unlink()
        with Store.open(str(path)) as new:
            assert summary.summary(new).rows == 0
    (left,) = path.parent.glob("farm.db.left-*-wal")
    assert left.read_bytes() == log


def test_a_folder_is_no_store(tmp_path: Path) -> None:
    with pytest.raises(FarmError, match="cannot be opened; look at the rights of the file and its folder"):
        Store.open(str(tmp_path))


@pytest.mark.slow
def test_a_full_disk_leaves_whole_rows(path: Path) -> None:
    with Store.open(str(path)) as store:
        run = store.begin("run", "")
        with contextlib.closing(store.engine.raw_connection()) as connection:
            pages = connection.execute("PRAGMA page_count").fetchone()[0]
            connection.execute(f"PRAGMA max_page_count = {pages + 3}")
        with pytest.raises(
            StoreError, match=r"farm.db: cannot be written: the disk is full; make room, then `farm store"
        ):
            for number in range(1000):
                store.add(run, [a_row(unit=f"a{number}"), a_row(unit=f"b{number}")])
        kept = [row["unit"] for row in store.rows(run)]
    assert kept == [f"{arm}{number}" for number in range(len(kept) // 2) for arm in "ab"]
    with Store.open(str(path)) as store:
        store.add(run, [a_row(unit="later")])


def test_a_store_on_a_full_disk_is_read(path: Path, tmp_path: Path) -> None:
    """SQLite wants room for the index of its log, even where nobody writes; rows in the log cannot be read without."""
    with disk_at(tmp_path / "disk", 1) as disk:
        shutil.copy(path, disk)
        fill(disk / "rest")
        with Store.open_to_read(str(disk / "farm.db")) as store:
            assert summary.summary(store).rows == 40
            with pytest.raises(StoreError, match="read-only"):
                store.begin("run", "")
        with pytest.raises(StoreError, match="the disk is full; make room"):
            Store.open(str(disk / "farm.db"), create=False)
        (disk / "rest").unlink()
        (disk / "farm.db-wal").write_bytes(b"rows")
        fill(disk / "rest")
        with pytest.raises(StoreError, match="the disk is full; make room"):
            Store.open_to_read(str(disk / "farm.db"))


def test_no_room_for_a_new_store_is_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As much room as an empty file needs, by a limit of what one file may grow to."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    monkeypatch.setattr(engine, "has_room", lambda _: False)
    resource.setrlimit(resource.RLIMIT_FSIZE, (512, hard))
    try:
        with pytest.raises(StoreError, match=r"farm.db: cannot be written: the disk is full; make room"):
            Store.open(str(tmp_path / "farm.db"))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, ignored)
    assert not list(tmp_path.iterdir())


@contextlib.contextmanager
def holding(path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Another process that writes in a store and does not come to its end."""
    program = (
        "import sqlite3, sys; c = sqlite3.connect(sys.argv[1]); c.execute('BEGIN IMMEDIATE');"
        "print(flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout and holder.stdout.readline()
        try:
            yield holder
        finally:
            holder.kill()


@pytest.mark.slow
def test_a_locked_store_can_be_read_and_says_who_writes(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "LOCK_WAIT_S", 0.1)
    with Store.open(str(path)) as store, holding(path) as holder:
        assert len(list(store.rows())) == 40
        with pytest.raises(StoreError, match=rf"farm.db: locked for 0.1 s by process {holder.pid} \(.*import sqlite3"):
            store.begin("run", "")
        with Store.open(str(path)) as other:
            assert len(other.runs()) == 1


@pytest.mark.slow
def test_a_lock_that_is_let_go_in_time_is_waited_for(path: Path) -> None:
    with Store.open(str(path)) as store, holding(path) as holder:
        holder.kill()
        assert store.begin("run", "") == 2


def test_a_table_locked_by_another_session_is_a_store_error(
    postgresql_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "LOCK_WAIT_S", 0.1)
    with Store.open(postgresql_url) as store, psycopg.connect(postgresql_url) as other:
        other.execute("LOCK TABLE runs")
        with pytest.raises(StoreError, match=r"locked for 0.1 s by another session; pg_stat_activity tells which"):
            store.begin("run", "")


AS_NOBODY = """
import os, sys
from farm.store import Store
from runtime.errors import StoreError
if os.getuid() == 0:
    os.setuid(65534)
try:
    Store.open(sys.argv[1])
except StoreError as error:
    print(error)
"""


@pytest.mark.slow
@pytest.mark.parametrize("name", ["new.db", "new/new.db"])
def test_no_store_is_made_in_a_read_only_folder(path: Path, name: str) -> None:
    path.parent.chmod(0o555)
    path.chmod(0o444)
    if os.getuid() == 0:  # the folders above belong to another user
        for folder in path.parents[1:-2]:
            folder.chmod(folder.stat().st_mode | 0o011)
    done = subprocess.run([sys.executable, "-c", AS_NOBODY, str(path.parent / name)], capture_output=True, text=True)
    path.parent.chmod(0o755)
    assert re.search(r"cannot be (written|opened|made)", done.stdout), done
    assert len(done.stdout.splitlines()) == 1 and done.returncode == 0


def test_an_unreachable_server_is_a_store_error(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        with pytest.raises(
            StoreError, match=rf"^postgresql://farm:\*\*\*@127.0.0.1:{port}/farm.*: .*refused"
        ) as caught:
            Store.open(f"postgresql://farm:se%20cret@127.0.0.1:{port}/farm?sslpassword=also")
    for secret in ("se%20cret", "se cret", "also"):
        assert secret not in str(caught.value)


def test_a_password_that_is_wrong_is_not_shown() -> None:
    url = sa.make_url(postgresql()).set(password="wr ng/pass")
    with pytest.raises(StoreError, match="password authentication failed") as caught:
        Store.open(url.render_as_string(hide_password=False))
    assert "wr" not in str(caught.value).replace("wrong", "") and caught.value.__suppress_context__


def test_a_session_that_the_server_ended_is_reconnected(postgresql_url: str) -> None:
    with Store.open(postgresql_url) as store:
        run = store.begin("run", "")
        with psycopg.connect(postgresql(), autocommit=True) as other:
            other.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'farm'")
        store.add(run, [a_row()])
        assert len(list(store.rows())) == 1


def test_a_role_without_the_right_to_create_tables_is_a_store_error(postgresql_url: str) -> None:
    server, role = sa.make_url(postgresql_url), "farm_guest"
    with psycopg.connect(postgresql(), autocommit=True) as connection:
        connection.execute(f"DROP ROLE IF EXISTS {role}")
        connection.execute(f"CREATE ROLE {role} LOGIN PASSWORD 'guest'")
        url = server.set(username=role, password="guest").render_as_string(hide_password=False)
        with pytest.raises(StoreError, match=r"farm_guest:\*\*\*@.*: ") as caught:
            Store.open(url)
        connection.execute(f"DROP ROLE {role}")
    assert "guest@" not in str(caught.value) and len(str(caught.value)) < 400


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
