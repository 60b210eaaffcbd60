"""Writes a night's report: one folder that appears whole, in place of the one before it."""

import dataclasses
import enum
import json
from collections.abc import Collection, Iterator, Mapping
from importlib import resources
from pathlib import Path

from farm.nightly.headline import headline
from farm.nightly.night import Night
from farm.report.document import night_json
from farm.report.junit import junit
from farm.report.kept_nights import FOLDER, INDEX, JSON, PAGE, VERDICT, keep_replaced, kept_headlines
from farm.report.merge_request import merge_request
from farm.report.operator_trace import most_changed, operator_trace, slowest
from farm.report.pages import nights_page, pages
from farm.report.whole_folder import replacing_folder

MARKDOWN, JUNIT = "summary.md", "junit.xml"
SLOWEST, MOST_CHANGED = "trace-slowest.json", "trace-most-changed.json"
ASSETS = ("report.css", "theme.js", "tables.js", "charts.js", "rows.js")
PLOTLY = "plotly.min.js"


class ReportFormat(enum.StrEnum):
    """What a night can be written as."""

    HTML = "html"
    MARKDOWN = "markdown"
    JUNIT = "junit"
    JSON = "json"
    TRACE = "trace"


@dataclasses.dataclass(frozen=True)
class ReportFiles:
    """Where a report's files are. `index` is the first page, the folder where no pages were asked for."""

    folder: Path
    files: tuple[Path, ...]

    @property
    def index(self) -> Path:
        """What to open first."""
        pages = self.folder / INDEX
        return pages if pages in self.files else self.folder


def write_reports(night: Night, folder: Path, formats: Collection[ReportFormat] = tuple(ReportFormat)) -> ReportFiles:
    """Writes a night in these formats; a report that is in the folder already is replaced in one step.

    Pages of other nights that were there are kept in it, the newest `KEPT_NIGHTS` of them.

    JSON is always written: the pages link to it, and a folder is known as a report by it. Raises ConfigError where the
    folder holds anything but a report, FarmError where it cannot be written.
    """
    written: list[str] = []
    kept = kept_headlines(folder, night.run.name, night.run.id)
    with replacing_folder(folder, JSON, keep_replaced) as new:
        for name, content in _files(night, {*formats, ReportFormat.JSON}, kept):
            path = new / name
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(content)
            written.append(name)
    return ReportFiles(folder, tuple(folder / name for name in written))


def _files(night: Night, formats: Collection[ReportFormat], kept: Mapping[int, str]) -> Iterator[tuple[str, bytes]]:
    if ReportFormat.HTML in formats:
        yield from ((name, text.encode()) for name, text in pages(night))
        yield PAGE, nights_page(night, {run: (f"{FOLDER}/{run}/{INDEX}", said) for run, said in kept.items()}).encode()
        yield VERDICT, _verdict(night).encode()
        yield from _assets()
    if ReportFormat.MARKDOWN in formats:
        yield MARKDOWN, merge_request(night).encode()
    if ReportFormat.JUNIT in formats:
        yield JUNIT, junit(night).encode()
    if ReportFormat.JSON in formats:
        yield JSON, night_json(night).encode()
    if ReportFormat.TRACE in formats:
        for name, case in ((SLOWEST, slowest(night)), (MOST_CHANGED, most_changed(night))):
            if case:
                yield name, operator_trace(case).encode()


def _verdict(night: Night) -> str:
    members = {"run": str(night.run.id), "name": night.run.name, "outcome": night.outcome, "headline": headline(night)}
    return json.dumps(members, indent=1) + "\n"


def _assets() -> Iterator[tuple[str, bytes]]:
    own = resources.files("farm.report") / "assets"
    yield from ((f"assets/{name}", (own / name).read_bytes()) for name in ASSETS)
    yield f"assets/{PLOTLY}", (resources.files("plotly") / "package_data" / PLOTLY).read_bytes()
