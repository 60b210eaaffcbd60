"""The reports of the nights before stay in the folder `nights` of the newest, each as it was.

A report links to its own `nights.html`. In the newest that page lists all nights; in one that is kept it leads there.
"""

import dataclasses
import json
import re
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

KEPT_NIGHTS = 14
INDEX, JSON = "index.html", "night.json"  # of every report
FOLDER, PAGE, VERDICT = "nights", "nights.html", "verdict.json"
_TO_ALL = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>All nights</title>
<meta http-equiv="refresh" content="0; url=../../nights.html"></head>
<body><a href="../../nights.html">All nights</a></body></html>
"""


def keep_replaced(replaced: Path, newest: Path) -> None:
    """Moves a report that another of the same name took the place of, and those that it kept, into the newest one."""
    before, after, kept = verdict_of(replaced), verdict_of(newest), newest / FOLDER
    run = run_of(before)
    if run is None or before.get("name") != after.get("name"):
        return
    for earlier in _reports(replaced / FOLDER):
        _move(earlier, kept / earlier.name)
    if run != run_of(after):
        (replaced / PAGE).write_text(_TO_ALL)
        _move(replaced, kept / str(run))
    for surplus in sorted(_reports(kept), key=lambda path: -int(path.name))[KEPT_NIGHTS:]:
        shutil.rmtree(surplus, ignore_errors=True)


def _move(report: Path, target: Path) -> None:
    target.parent.mkdir(exist_ok=True)
    shutil.rmtree(report / FOLDER, ignore_errors=True)
    if not target.exists():
        report.rename(target)


def kept_headlines(folder: Path, name: str, run: int) -> dict[int, str]:
    """The nights that are kept when the report of a run of this name takes the folder's place: run and headline."""
    verdicts = map(verdict_of, (folder, *_reports(folder / FOLDER)))
    of_name = [(run_of(each), each.get("headline", "")) for each in verdicts if each.get("name") == name]
    others = [(found, headline) for found, headline in of_name if found is not None and found != run]
    return dict(sorted(others, reverse=True)[:KEPT_NIGHTS])


def run_of(verdict: Mapping[str, str]) -> int | None:
    """The run that a verdict is of; None where it says none."""
    run = verdict.get("run", "")
    return int(run) if re.fullmatch(r"[0-9]{1,18}", run) else None


def verdict_of(report: Path) -> dict[str, str]:
    """What `verdict.json` of a report says; empty where there is none."""
    try:
        members = json.loads((report / VERDICT).read_text())
    except (OSError, ValueError):
        return {}
    return {str(name): str(value) for name, value in members.items()} if isinstance(members, dict) else {}


def _reports(folder: Path) -> Iterator[Path]:
    if folder.is_dir():
        yield from (path for path in folder.iterdir() if path.is_dir() and path.name.isdigit())


SERVED_SUFFIXES = {".html", ".css", ".js", ".json", ".xml", ".md"}


@dataclasses.dataclass(frozen=True)
class WrittenReport:
    """A report, the sentence that it begins with, and when it was written (Unix time)."""

    name: str
    headline: str
    outcome: str
    written: float


def written_reports(folder: Path) -> list[WrittenReport]:
    """All reports with pages below a folder, the newest first."""
    return sorted(map(_report, _folders(folder)), key=lambda report: -report.written)


def served_file(folder: Path, name: str, path: str) -> Path | None:
    """A file of a report, its first page where none is named; None for whatever else lies there, or outside of it."""
    if name not in {path.name for path in _folders(folder)}:
        return None
    report = (folder / name).resolve()
    file = (report / (path or INDEX)).resolve()
    is_served = file.is_relative_to(report) and file.suffix in SERVED_SUFFIXES and file.is_file()
    return file if is_served else None


def _folders(folder: Path) -> list[Path]:
    """Those of all reports with pages."""
    found = sorted(folder.iterdir()) if folder.is_dir() else []
    return [path for path in found if (path / JSON).is_file() and (path / INDEX).is_file()]


def _report(path: Path) -> WrittenReport:
    said = verdict_of(path)
    return WrittenReport(path.name, said.get("headline", ""), said.get("outcome", ""), (path / JSON).stat().st_mtime)
