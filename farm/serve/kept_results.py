"""What the store, the reports and the artifacts of the working folder hold, as the page shows it."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from farm import artifacts
from farm.artifacts import Artifact
from farm.jobs.compare.stored_runs import LATEST, find_run
from farm.jobs.nightly.stored_night import load_night
from farm.nightly.night import Night
from farm.report.kept_nights import verdict_of
from farm.report.lines import Links, links_of
from farm.report.names import slug
from farm.rows.run_info import RunInfo
from farm.store import Store
from farm.store.recent import RunProgress, interrupt_run, last_rows_of_unit, row_counts, runs_in_progress
from runtime.errors import ConfigError, FarmError

INDEX, FIGURES = "index.html", "night.json"
SERVED_SUFFIXES = {".html", ".css", ".js", ".json", ".xml", ".md"}
SHOWN_ROWS, SHOWN_RUNS = 50, 25


@dataclasses.dataclass(frozen=True)
class WrittenReport:
    """A report below the reports folder, and the sentence that it begins with."""

    name: str
    headline: str
    outcome: str
    written: float


@dataclasses.dataclass(frozen=True)
class JudgedNight:
    """The latest night, where its pages are, and the report that has them (empty: none is written of it)."""

    night: Night
    links: Links
    report: str


class KeptResults:
    """Reads the store (opened when it is there), the reports and the artifacts; any thread may ask."""

    def __init__(self, store: str | None, reports: Path) -> None:
        self._url, self._reports = store, reports
        self._store: Store | None = None
        self._night: tuple[RunInfo, JudgedNight] | None = None
        self._lock = threading.Lock()

    def close(self) -> None:
        """Closes the store."""
        if self._store:
            self._store.close()

    def store(self) -> Store:
        """The store; ConfigError where there is none yet."""
        with self._lock:
            if self._store is None:
                self._store = Store.open(self._url, create=False, tell=lambda line: None)
            return self._store

    def why_no_store(self) -> str:
        """Why nothing of the store can be shown; empty where all is well."""
        try:
            self.store()
        except FarmError as error:
            return str(error)
        return ""

    def running(self) -> list[RunProgress]:
        """The runs that go on; none without a store."""
        return [] if self.why_no_store() else runs_in_progress(self.store())

    def runs(self) -> list[RunInfo]:
        """The newest runs."""
        return [] if self.why_no_store() else self.store().runs(limit=SHOWN_RUNS)

    def unit_rows(self, unit: str) -> list[dict[str, Any]]:
        """The newest rows of a unit."""
        return [] if self.why_no_store() else last_rows_of_unit(self.store(), unit, SHOWN_ROWS)

    def row_counts(self) -> dict[tuple[str, str], int]:
        """(job, status) -> number of rows."""
        return {} if self.why_no_store() else row_counts(self.store())

    def interrupt(self, run: int) -> None:
        """Ends a run as Ctrl-C would."""
        interrupt_run(self.store(), run)

    def night(self) -> JudgedNight | None:
        """The latest finished night, judged once; None where there is none."""
        if self.why_no_store():
            return None
        try:
            run = find_run(self.store(), LATEST)
        except ConfigError:
            return None
        with self._lock:
            if self._night is None or self._night[0] != run:
                assert self._store
                night = load_night(self._store, run.id)
                self._night = (run, JudgedNight(night, links_of(night), ""))
            judged = self._night[1]
        name = slug(run.name)
        written = verdict_of(self._reports / name).get("run") == str(run.id)
        return dataclasses.replace(judged, report=name if written else "")

    def reports(self) -> list[WrittenReport]:
        """The reports that are written, the newest first."""
        folders = [path for path in _folders(self._reports) if (path / FIGURES).is_file() and (path / INDEX).is_file()]
        found = [(verdict_of(path), path) for path in folders]
        reports = [
            WrittenReport(
                path.name, said.get("headline", ""), said.get("outcome", ""), (path / FIGURES).stat().st_mtime
            )
            for said, path in found
        ]
        return sorted(reports, key=lambda report: -report.written)

    def report_file(self, name: str, path: str) -> Path | None:
        """A file of a report; None for whatever else lies in the folder, or outside of it."""
        if name not in {report.name for report in self.reports()}:
            return None
        folder = (self._reports / name).resolve()
        file = (folder / (path or INDEX)).resolve()
        is_served = file.is_relative_to(folder) and file.suffix in SERVED_SUFFIXES and file.is_file()
        return file if is_served else None


def readable_artifacts() -> list[Artifact]:
    """The artifacts of the working folder that can be read."""
    found = []
    for path in artifacts.find():
        try:
            found.append(artifacts.read(path))
        except FarmError:
            continue
    return found


def artifact_file(path: str) -> Path | None:
    """The artifact of that path; None for any other file."""
    return next((file for file in artifacts.find() if str(file) == path), None)


def _folders(reports: Path) -> Sequence[Path]:
    return sorted(path for path in reports.iterdir() if path.is_dir()) if reports.is_dir() else []
