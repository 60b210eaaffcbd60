"""A report appears whole, and nothing but a report is replaced."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from farm.report import whole_folder
from farm.report.whole_folder import replacing_folder
from runtime.errors import ConfigError, FarmError

MARK = "night.json"


def fill(folder: Path, text: str) -> None:
    with replacing_folder(folder, MARK) as new:
        (new / MARK).write_text(text)


@pytest.mark.parametrize("can_exchange", [True, False])
def test_the_old_one_gives_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, can_exchange: bool) -> None:
    if not can_exchange:
        monkeypatch.setattr(whole_folder, "_exchange", lambda one, other: False)
    folder = tmp_path / "below" / "report"
    fill(folder, "old")
    (folder / "left-over.html").touch()
    fill(folder, "new")
    assert [path.name for path in folder.iterdir()] == [MARK]
    assert (folder / MARK).read_text() == "new"
    assert list(folder.parent.iterdir()) == [folder]


def test_an_interrupted_one_leaves_the_old(tmp_path: Path) -> None:
    folder = tmp_path / "report"
    fill(folder, "old")
    with pytest.raises(KeyboardInterrupt), replacing_folder(folder, MARK) as new:
        (new / MARK).write_text("half")
        raise KeyboardInterrupt
    assert (folder / MARK).read_text() == "old"
    assert list(tmp_path.iterdir()) == [folder]


@pytest.mark.slow
def test_a_killed_one_leaves_the_old(tmp_path: Path) -> None:
    folder = tmp_path / "report"
    fill(folder, "old")
    killed = (
        "import os, pathlib, sys; from farm.report.whole_folder import replacing_folder\n"
        "with replacing_folder(pathlib.Path(sys.argv[1]), 'night.json') as new:\n"
        "    (new / 'night.json').write_text('half')\n"
        "    os.kill(os.getpid(), 9)"
    )
    assert subprocess.run([sys.executable, "-c", killed, str(folder)], check=False).returncode == -signal.SIGKILL
    assert (folder / MARK).read_text() == "old"
    fill(folder, "new")
    assert (folder / MARK).read_text() == "new"


def test_what_a_killed_writer_left_is_deleted_in_time(tmp_path: Path) -> None:
    old, young, other = (tmp_path / name for name in (".report.a.writing", ".report.b.writing", ".report.mine"))
    for path in (old, young, other):
        path.mkdir()
    for path in (old, other):
        os.utime(path, (0, 0))
    fill(tmp_path / "report", "new")
    assert {path.name for path in tmp_path.iterdir()} == {"report", young.name, other.name}


def test_a_folder_of_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("years")
    with pytest.raises(ConfigError, match="holds something else than a report"):
        fill(tmp_path, "new")
    assert (tmp_path / "thesis.tex").read_text() == "years"


def test_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "report").write_text("a file")
    with pytest.raises(ConfigError, match="not a folder"):
        fill(tmp_path / "report", "new")


def test_what_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(FarmError, match="cannot be written"):
        fill(tmp_path / "file" / "report", "new")


@pytest.mark.parametrize(("umask", "mode"), [(0o077, 0o700), (0o022, 0o755), (0o002, 0o775)])
def test_the_umask_says_who_may_read_and_write(tmp_path: Path, umask: int, mode: int) -> None:
    before = os.umask(umask)
    try:
        fill(tmp_path / "report", "new")
    finally:
        os.umask(before)
    assert (tmp_path / "report").stat().st_mode & 0o777 == mode
