"""The reports of the nights before stay in the folder `nights` of the newest, each as it was.

A report links to its own `nights.html`. In the newest that page lists all nights; in one that is kept it leads there.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

KEPT_NIGHTS = 14
FOLDER, PAGE, VERDICT = "nights", "nights.html", "verdict.json"
_TO_ALL = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>All nights</title>
<meta http-equiv="refresh" content="0; url=../../nights.html"></head>
<body><a href="../../nights.html">All nights</a></body></html>
"""


def keep_replaced(replaced: Path, newest: Path) -> None:
    """Moves a report that another of the same name took the place of, and those that it kept, into the newest one."""
    run, kept = run_of(replaced), newest / FOLDER
    if run is None or verdict_of(replaced).get("name") != verdict_of(newest).get("name"):
        return
    for earlier in _reports(replaced / FOLDER):
        _move(earlier, kept / earlier.name)
    if run != run_of(newest):
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
    verdicts = {run_of(path): verdict_of(path) for path in (folder, *_reports(folder / FOLDER))}
    same_name = {found: each for found, each in verdicts.items() if found not in (None, run) and each["name"] == name}
    newest = sorted((found for found in same_name if found is not None), reverse=True)[:KEPT_NIGHTS]
    return {found: same_name[found].get("headline", "") for found in newest}


def run_of(report: Path) -> int | None:
    """The run that a folder is the report of; None where it is none."""
    run = verdict_of(report).get("run", "")
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
