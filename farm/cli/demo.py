"""`farm demo`."""

from __future__ import annotations

from pathlib import Path

import click

from farm.cli import options, store_options, view
from farm.config import deployment
from farm.jobs.demo.job import Demo, demonstrate, write_report
from farm.jobs.demo.nights import measure_nights
from farm.report.write import write_reports
from farm.rows.row import exit_status
from farm.tables import table
from farm.tables.nightly import night_tables
from farm.tables.run import artifact_lines, run_tables
from farm.tables.tune import tune_table
from farm.units.selection import Selection

MODELS = (Path("models/mobilenet_v1.yml"), Path("models/squeezenet_v11.yml"))
REPORT = Path("reports/demo.md")
NIGHTS_REPORT = Path("reports/emulated_farm")
NIGHTS_STORE = Path("reports/emulated_farm.db")
NIGHTS = "nights"


@click.command(name="demo")
@click.option(
    "--only",
    type=click.Choice(["main", NIGHTS]),
    help="Only the main job on this machine, or only the nights of an emulated farm.",
)
@click.option(
    "-o",
    "--output",
    metavar="FOLDER",
    type=options.FILE,
    default=NIGHTS_REPORT,
    show_default=True,
    help="Report on the nights.",
)
@store_options.store_option
def command(only: str | None, output: Path, store: str | None) -> int:
    """Show what farm does on this machine and on emulated phones, and write reports of it.

    Runs, validates, profiles and tunes two networks; then lets two phones live through some nights, of which one is hot
    and the last one brings a slowdown. Call it where the folder models/ is.
    """
    status = 0 if only == NIGHTS else _main_job(store)
    if only != "main":
        _nights(output)
    return status


def _main_job(store: str | None) -> int:
    units = options.units(Selection(devices=("host",)))
    with store_options.keeping(store) as keeper, view.shown() as progress:
        demo = demonstrate([deployment.load(path) for path in MODELS], units, progress, keeper)
    write_report(demo, REPORT)
    _show(demo)
    return max(exit_status(demo.rows), keeper.exit_status)


def _show(demo: Demo) -> None:
    table.show([*run_tables(demo.runs), demo.slowest, tune_table(demo.tunings)])
    for line in (*artifact_lines(demo.tunings), *demo.artifacts):
        click.echo(line)
    options.tell_failures(demo.rows)
    click.echo(f"report: {REPORT}")


def _nights(folder: Path) -> None:
    """The nights of the emulated farm; the last one's report."""
    click.echo("\nNights of two emulated phones", err=True)
    *_, night = measure_nights(MODELS[0], NIGHTS_STORE, store_options.working_commit(), store_options.tell)
    table.show(night_tables(night))
    click.echo(f"report of the nights: {write_reports(night, folder).index}")
