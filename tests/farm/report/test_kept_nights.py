"""Reports of the nights before are kept in the newest one, and lead to each other."""

import dataclasses
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from farm.report import kept_nights, whole_folder
from farm.report.kept_nights import FOLDER, KEPT_NIGHTS, PAGE
from farm.report.whole_folder import replacing_folder
from farm.report.write import ReportFormat, write_reports
from runtime.errors import ConfigError, FarmError
from tests.farm.report import nights


def write(folder: Path, run: int, name: str = "lab") -> None:
    night = nights.night(6, nights.PHONES[3:])
    write_reports(dataclasses.replace(night, run=dataclasses.replace(night.run, id=run, name=name)), folder)


def kept(folder: Path) -> list[int]:
    return sorted(int(path.name) for path in (folder / FOLDER).iterdir())


@pytest.mark.slow
def test_replaced_reports_stay_and_can_be_reached(tmp_path: Path) -> None:
    folder = tmp_path / "report"
    for run in (4, 5, 6):
        write(folder, run)
    assert kept(folder) == [4, 5]
    assert "run 4" in (folder / FOLDER / "4" / "index.html").read_text()
    listed = (folder / PAGE).read_text()
    assert 'href="nights/4/index.html"' in listed and 'href="nights/5/index.html"' in listed
    assert not list((folder / FOLDER).rglob(f"*/{FOLDER}")), "none keeps reports of its own any more"
    back = (folder / FOLDER / "4" / PAGE).read_text()
    assert (folder / FOLDER / "4" / "../../nights.html").resolve() == folder / PAGE and "../../nights.html" in back


def test_the_same_night_written_again_replaces_itself(tmp_path: Path) -> None:
    for _ in range(2):
        write(tmp_path / "report", 4)
    assert not (tmp_path / "report" / FOLDER).exists() or kept(tmp_path / "report") == []


@pytest.mark.slow
def test_an_older_night_in_its_place_keeps_the_newer(tmp_path: Path) -> None:
    for run in (4, 5, 4):
        write(tmp_path / "report", run)
    assert 5 in kept(tmp_path / "report")
    assert 'href="nights/4/' not in (tmp_path / "report" / PAGE).read_text()


@pytest.mark.slow
def test_the_oldest_go_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_nights, "KEPT_NIGHTS", 2)
    for run in range(9, 13):
        write(tmp_path / "report", run)
    assert kept(tmp_path / "report") == [10, 11]
    assert KEPT_NIGHTS > 7


@pytest.mark.slow
def test_a_report_of_another_name_is_not_kept(tmp_path: Path) -> None:
    write(tmp_path / "report", 4, "others")
    write(tmp_path / "report", 5)
    assert not (tmp_path / "report" / FOLDER).exists()
    assert "nights/4" not in (tmp_path / "report" / PAGE).read_text()


@pytest.mark.slow
@pytest.mark.parametrize("text", ["", "[]", '{"run": "../x", "name": "lab"}', '{"name": 1}', '{"run": "4"}', "{"])
def test_a_damaged_report_is_replaced_all_the_same(tmp_path: Path, text: str) -> None:
    folder = tmp_path / "report"
    write(folder, 4)
    (folder / "verdict.json").write_text(text)
    write(folder, 5)
    assert "run 5" in (folder / "index.html").read_text() and not (folder / FOLDER).exists()


def test_reports_without_pages_keep_none(tmp_path: Path) -> None:
    for run in (4, 5):
        night = nights.night(6, nights.PHONES[3:])
        changed = dataclasses.replace(night, run=dataclasses.replace(night.run, id=run))
        write_reports(changed, tmp_path / "report", [ReportFormat.JUNIT])
    assert not (tmp_path / "report" / FOLDER).exists()


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
