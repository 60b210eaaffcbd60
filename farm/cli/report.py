"""`farm report`: a night of the store as pages and files."""

from pathlib import Path

import click

from farm.cli.envelope import CommandResult, Document
from farm.jobs.compare.stored_runs import PREFIX, find_run
from farm.jobs.nightly.stored_night import load_night
from farm.nightly.headline import headline
from farm.report.names import slug
from farm.report.write import ReportFiles, ReportFormat, write_reports
from farm.safe_text import one_line
from farm.store import Store

REPORTS = Path("reports")


def report(
    run: str, baseline: str, output: Path | None, formats: list[str], store: str | None, as_json: bool
) -> CommandResult:
    """`farm report`."""
    with Store.open_to_read(store) as opened:
        night = load_night(opened, find_run(opened, run.removeprefix(PREFIX)).id, baseline)
    written = write_reports(night, output or REPORTS / slug(night.run.name), list(map(ReportFormat, formats)))
    if as_json:
        return Document(members={"outcome": night.outcome, "headline": headline(night), **_paths(written)})
    click.echo(f"{one_line(headline(night))}\n{written.index}")
    return 0


def _paths(written: ReportFiles) -> dict[str, object]:
    return {
        "folder": str(written.folder),
        "index": str(written.index),
        "files": [str(file.relative_to(written.folder)) for file in written.files],
    }
