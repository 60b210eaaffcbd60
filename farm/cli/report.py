"""`farm report`: a night of the store as pages and files."""

from __future__ import annotations

from pathlib import Path

import click

from farm.cli import options, store_options
from farm.cli.envelope import CommandResult, Document
from farm.jobs.compare.stored_runs import LATEST, PREFIX, find_run
from farm.jobs.nightly.stored_night import load_night
from farm.nightly.configuration import SERIES
from farm.report import ReportFiles, ReportFormat, write_reports
from farm.report.names import slug
from farm.report.words import headline
from farm.safe_text import one_line
from farm.store import Store

REPORTS = Path("reports")


def _formats(_context: click.Context, _option: click.Parameter, value: str) -> list[ReportFormat]:
    """Formats with commas between them."""
    wanted = {name.strip() for name in value.split(",")}
    if unknown := sorted(wanted - set(ReportFormat)):
        raise click.BadParameter(f"unknown format {unknown[0]!r}; there are {', '.join(ReportFormat)}")
    return [name for name in ReportFormat if name in wanted]


@click.command(name="report")
@click.option("--run", metavar=f"RUN|{LATEST}", default=LATEST, show_default=True, help="Run of `farm nightly`.")
@click.option("--baseline", metavar="NAME", default=SERIES, show_default=True, help="series, last_good, or a name.")
@click.option("-o", "--output", metavar="FOLDER", type=options.FILE, help="Report.  [default: reports/<name>]")
@click.option(
    "--format",
    "formats",
    metavar="FORMAT[,...]",
    callback=_formats,
    default=",".join(ReportFormat),
    help=f"Any of {', '.join(ReportFormat)}.  [default: all]",
)
@store_options.store_option
@options.json_option
def command(
    run: str, baseline: str, output: Path | None, formats: list[ReportFormat], store: str | None, as_json: bool
) -> CommandResult:
    """Write the report of a night: pages, Markdown, JUnit XML, JSON, traces (docs/reports.md).

    The night is judged anew, by what the store knows today. A report that is in FOLDER already is replaced as a whole.
    """
    with Store.open(store, create=False) as opened:
        night = load_night(opened, find_run(opened, run.removeprefix(PREFIX)).id, baseline)
    written = write_reports(night, output or REPORTS / slug(night.run.name), formats)
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
