"""What the store and the reports of the working folder hold, as the page shows it."""

import dataclasses
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from farm.jobs.nightly.stored_night import load_night
from farm.nightly.night import Night
from farm.report.kept_nights import WrittenReport, served_file, verdict_of, written_reports
from farm.report.lines import Links, links_of
from farm.report.names import slug
from farm.rows.run_info import RunInfo
from farm.store import Store
from farm.store.recent import (
    RunProgress,
    interrupt_run,
    last_rows_of_unit,
    latest_night_of_unit,
    latest_nights,
    row_counts,
    runs_in_progress,
)
from runtime.errors import FarmError

SHOWN_ROWS, SHOWN_RUNS = 50, 25
KEPT_NIGHTS = 4  # that are judged


@dataclasses.dataclass(frozen=True)
class JudgedNight:
    """A night, where its pages are, and the report that has them (empty: none is written of it)."""

    night: Night
    links: Links
    report: str


class KeptResults:
    """Reads the store (opened when it is there) and the reports; any thread may ask."""

    def __init__(self, store: str | None, reports: Path) -> None:
        self._url, self._reports = store, reports
        self._store: Store | None = None
        self._judged: dict[int, tuple[RunInfo, JudgedNight]] = {}
        self._lock = threading.Lock()

    def close(self) -> None:
        """Closes the store."""
        if self._store:
            self._store.close()

    def store(self) -> Store:
        """The store; ConfigError where there is none yet."""
        with self._lock:
            if self._store is None or self._store.is_gone:
                self.close()
                self._store = Store.open(self._url, create=False)
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

    def run(self, number: int) -> RunInfo:
        """A run; ConfigError where there is none of this number."""
        return self.store().run(number)

    def run_rows(self, number: int) -> Iterator[dict[str, Any]]:
        """The rows of a run, oldest first."""
        return self.store().rows(number)

    def report_of(self, run: RunInfo) -> str:
        """The name of the report that is written of a run; empty where there is none."""
        name = slug(run.name)
        return name if verdict_of(self._reports / name).get("run") == str(run.id) else ""

    def unit_rows(self, unit: str) -> list[dict[str, Any]]:
        """The newest rows of a unit."""
        return [] if self.why_no_store() else last_rows_of_unit(self.store(), unit, SHOWN_ROWS)

    def row_counts(self) -> dict[tuple[str, str], int]:
        """(job, status) -> number of rows."""
        return {} if self.why_no_store() else row_counts(self.store())

    def interrupt(self, run: int) -> None:
        """Ends a run as Ctrl-C would."""
        interrupt_run(self.store(), run)

    def nights(self) -> list[RunInfo]:
        """The latest finished night of each name, the newest first: hosts with one store may have their own."""
        return [] if self.why_no_store() else latest_nights(self.store())

    def night(self, name: str = "") -> JudgedNight | None:
        """The latest finished night, of a name where one is given; judged once. None where there is none."""
        run = next((run for run in self.nights() if name in ("", run.name)), None)
        return self._night(run) if run else None

    def night_of_unit(self, unit: str) -> JudgedNight | None:
        """The latest finished night of a unit."""
        run = None if self.why_no_store() else latest_night_of_unit(self.store(), unit)
        return self._night(run) if run else None

    def _night(self, run: RunInfo) -> JudgedNight:
        with self._lock:
            if run.id not in self._judged or self._judged[run.id][0] != run:
                assert self._store
                night = load_night(self._store, run.id)
                newest = dict(list(self._judged.items())[-KEPT_NIGHTS + 1 :])
                self._judged = {**newest, run.id: (run, JudgedNight(night, links_of(night), ""))}
            judged = self._judged[run.id][1]
        return dataclasses.replace(judged, report=self.report_of(run))

    def reports(self) -> list[WrittenReport]:
        """The reports that are written, the newest first."""
        return written_reports(self._reports)

    def report_file(self, name: str, path: str) -> Path | None:
        """A file of a report; None for whatever else lies in the folder, or outside of it."""
        return served_file(self._reports, name, path)
