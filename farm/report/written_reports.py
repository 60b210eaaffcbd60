"""The reports that are written below a folder: which there are, what each says, and its files."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from farm.report.kept_nights import INDEX, JSON, verdict_of

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
