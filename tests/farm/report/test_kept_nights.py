"""Reports of the nights before are kept in the newest one, and lead to each other."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from farm.report import kept_nights
from farm.report.kept_nights import FOLDER, KEPT_NIGHTS, PAGE
from farm.report.write import ReportFormat, write_reports
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
