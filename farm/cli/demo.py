"""`farm demo`."""

from __future__ import annotations

from pathlib import Path

import click

from farm.cli import options, store_options, view
from farm.config import deployment, samples
from farm.jobs.commit import working_commit
from farm.jobs.demo.job import Demo, demonstrate, write_report
from farm.jobs.demo.nights import measure_nights
from farm.report.write import write_reports
from farm.rows.row import exit_status
from farm.tables import table
from farm.tables.nightly import night_tables
from farm.tables.run import artifact_lines, run_tables
from farm.tables.tune import tune_table
from farm.units import lookup
from farm.units.selection import Selection
from runtime.errors import ConfigError

MODELS = ("mobilenet_v1", "squeezenet_v11")  # the samples; a quick demonstration takes the last
REPORT = Path("reports/demo.md")
NIGHTS_STORE = Path("reports/emulated_farm.db")
NIGHTS = "nights"
QUICK_S = 2.0  # of device time


def demo(only: str | None, quick: bool, output: Path, store: str | None) -> int:
    """`farm demo`; returns the exit status."""
    if quick and only == NIGHTS:
        raise ConfigError("--quick leaves out the nights; give one of the two")
    status = 0 if only == NIGHTS else _main_job(quick, store)
    if only != "main" and not quick:
        _nights(output)
    return status


def _main_job(quick: bool, store: str | None) -> int:
    models = [deployment.load(samples.find(name)) for name in MODELS]
    units = lookup.chosen_units(Selection(devices=("host",)))
    with store_options.keeping(store) as keeper, view.shown() as progress:
        demo = demonstrate(models[-1:] if quick else models, units, progress, keeper, QUICK_S if quick else None)
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
    *_, night = measure_nights(samples.find(MODELS[0]), NIGHTS_STORE, working_commit(), store_options.tell)
    table.show(night_tables(night))
    click.echo(f"report of the nights: {write_reports(night, folder).index}")
