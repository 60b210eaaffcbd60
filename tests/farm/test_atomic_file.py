"""Files appear whole or not at all, and what a killed writer leaves is removed when nobody can finish it."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from farm import atomic_file, host_system

WRITER = """
import sys, time
from pathlib import Path
from farm import atomic_file
with atomic_file.replacing(Path(sys.argv[1])) as file:
    file.write(b"half")
    file.flush()
    print("writing", flush=True)
    time.sleep(600)
"""


@pytest.fixture(autouse=True)
def new_process() -> None:
    """Each test is the first in its process that writes anywhere."""
    atomic_file._clear_once.cache_clear()


def start_writer(path: Path) -> subprocess.Popen[str]:
    writer = subprocess.Popen([sys.executable, "-c", WRITER, path], stdout=subprocess.PIPE, text=True)
    assert writer.stdout and writer.stdout.readline() == "writing\n"
    return writer


def hidden(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.name.startswith("."))


def make(folder: Path, owner: str, age_s: float = 0.0) -> Path:
    path = folder / f".report.json.{owner}.abcd_123"
    path.write_text("half")
    os.utime(path, (time.time() - age_s,) * 2)
    return path


@pytest.mark.slow
def test_what_a_killed_writer_left_is_removed_at_the_next_write_there(tmp_path: Path) -> None:
    with start_writer(tmp_path / "report.json") as killed, start_writer(tmp_path / "other.json") as writing:
        killed.send_signal(signal.SIGKILL)
        os.waitid(os.P_PID, killed.pid, os.WEXITED | os.WNOWAIT)  # dead, and not reaped yet
        assert len(hidden(tmp_path)) == 2
        atomic_file.write(tmp_path / "third.json", b"whole")
        (left,) = hidden(tmp_path)
        assert left.startswith(f".other.json.{host_system.process_space()}-{writing.pid}-")
        writing.kill()
    assert (tmp_path / "third.json").read_bytes() == b"whole"


def test_a_number_that_another_process_has_now_does_not_own_the_file(tmp_path: Path) -> None:
    space, pid = host_system.process_space(), os.getpid()
    mine = make(tmp_path, f"{space}-{pid}-{host_system.process_start(pid)}")
    make(tmp_path, f"{space}-{pid}-1")
    atomic_file.remove(atomic_file.abandoned(tmp_path))
    assert hidden(tmp_path) == [mine.name]


def test_files_of_another_machine_go_by_their_age(tmp_path: Path) -> None:
    young = make(tmp_path, "00000000-4194304-5", atomic_file.FOREIGN_AGE_S - 600)
    make(tmp_path, "00000000-1-5", atomic_file.FOREIGN_AGE_S + 600)
    atomic_file.remove(atomic_file.abandoned(tmp_path))
    assert hidden(tmp_path) == [young.name]


def test_nothing_else_is_removed(tmp_path: Path) -> None:
    kept = [tmp_path / name for name in (".report.json.abcd1234", ".x.00000000-1.abcd_123", "x.00000000-1-1.abcd_123")]
    for path in kept:
        path.write_text("")
        os.utime(path, (0, 0))
    atomic_file.remove(atomic_file.abandoned(tmp_path))
    assert sorted(tmp_path.iterdir()) == sorted(kept)


def test_a_link_is_removed_and_never_followed(tmp_path: Path) -> None:
    (tmp_path / "treasure").mkdir()
    (tmp_path / "treasure/file").write_text("dear")
    name = f".x.{host_system.process_space()}-{os.getpid()}-1.abcd_123"
    (tmp_path / name).symlink_to(tmp_path / "treasure")
    atomic_file.remove(atomic_file.abandoned(tmp_path))
    assert hidden(tmp_path) == [] and (tmp_path / "treasure/file").read_text() == "dear"


def test_an_abandoned_folder_is_removed_with_what_is_in_it(tmp_path: Path) -> None:
    folder = tmp_path / f".farm.db.{host_system.process_space()}-{os.getpid()}-1.abcd_123"
    folder.mkdir()
    (folder / "farm.db").write_text("half")
    atomic_file.remove(atomic_file.abandoned(tmp_path))
    assert hidden(tmp_path) == []


def test_a_folder_that_is_not_there_holds_nothing(tmp_path: Path) -> None:
    assert atomic_file.abandoned(tmp_path / "none") == []


def test_processes_are_known_by_their_start() -> None:
    pid = os.getpid()
    assert host_system.is_running(pid, host_system.process_start(pid))
    assert not host_system.is_running(pid, "1")
    assert not host_system.is_running(2**40, "1")


@pytest.mark.parametrize(("umask", "mode"), [(0o077, 0o600), (0o022, 0o644), (0o002, 0o664)])
def test_the_umask_says_who_may_read_and_write(tmp_path: Path, umask: int, mode: int) -> None:
    """A group that shares a place by umask 002 can write there, and 077 keeps others out."""
    before = os.umask(umask)
    try:
        atomic_file.write(tmp_path / "file", b"x")
        with atomic_file.replacing(tmp_path / "secret", 0o600):
            pass
        with atomic_file.replacing(tmp_path / "program", 0o755):
            pass
    finally:
        os.umask(before)
    modes = [(tmp_path / name).stat().st_mode & 0o777 for name in ("file", "secret", "program")]
    assert modes == [mode, 0o600, 0o755]


def test_what_is_no_file_of_a_disk_is_written_and_not_replaced(tmp_path: Path) -> None:
    null, pipe = tmp_path / "null", tmp_path / "pipe"
    null.symlink_to(os.devnull)
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    for path in (null, pipe):
        atomic_file.write(path, b"report")
    assert os.read(reader, 100) == b"report"
    assert null.is_symlink()
    assert pipe.is_fifo()
    atomic_file.write(Path("/dev/stderr"), b"report")
    assert Path("/dev/stderr").is_symlink()
