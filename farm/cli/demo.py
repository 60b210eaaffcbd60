"""`farm demo`."""

from pathlib import Path

import click

from farm.cli import store_options, view, work
from farm.cli.envelope import CommandResult, Document
from farm.config import deployment, samples
from farm.jobs.commit import working_commit
from farm.jobs.demo.job import Demo, demonstrate, shown_in_words, write_report
from farm.jobs.demo.nights import measure_nights
from farm.nightly.headline import headline
from farm.nightly.notification import verdict_members
from farm.report.write import write_reports
from farm.rows.row import exit_status
from farm.safe_text import one_line
from farm.tables import table
from farm.tables.nightly import night_tables
from farm.tables.run import run_tables
from farm.tables.tune import choice_lines, tune_table
from farm.units import lookup
from farm.units.selection import Selection
from runtime.errors import ConfigError

MODEL = "squeezenet_v11"  # the sample: quick to run, with layers whose algorithm can be chosen
REPORT = Path("reports/demo.md")
NIGHTS_STORE = Path("reports/emulated_farm.db")
NIGHTS = "nights"
TUNE_S, QUICK_S = 45.0, 12.0  # of wall time for the search and its proof


def demo(
    only: str | None, quick: bool, output: Path, opencl: str | None, store: str | None, as_json: bool
) -> CommandResult:
    """`farm demo`; its document has the rows of the main job and of the last night."""
    if quick and only == NIGHTS:
        raise ConfigError("--quick leaves out the nights; give one of the two")
    if opencl and only == NIGHTS:
        raise ConfigError("--opencl is for the main job, which --only nights leaves out; give one of the two")
    main = (
        Document(members={"report": None, "artifacts": []})
        if only == NIGHTS
        else _main_job(quick, opencl, store, as_json)
    )
    nights = None if only == "main" or quick else _nights(output, as_json)
    rows = [*main.rows, *(nights.rows if nights else ())]
    members = {**main.members, "nights": nights.members if nights else None}
    return Document(main.exit_status, rows, members) if as_json else main.exit_status


def _main_job(quick: bool, opencl: str | None, store: str | None, as_json: bool) -> Document:
    """Runs, profiles and tunes the samples on this machine, tunes on a played GPU, and writes the report of it."""
    models = [deployment.load(samples.find(MODEL))]
    units = lookup.chosen_units(Selection(devices=("host",)))
    with view.shown() as progress, store_options.keeping(store) as keeper:
        demo = demonstrate(models, units, progress, keeper, QUICK_S if quick else TUNE_S, opencl, store_options.tell)
    write_report(demo, REPORT)
    if not as_json:
        _show(demo)
    work.tell_failures(demo.rows)
    status = max(exit_status(demo.rows), keeper.exit_status)
    return Document(status, demo.rows, {"report": str(REPORT), "artifacts": demo.artifacts})


def _show(demo: Demo) -> None:
    table.show([*run_tables(demo.runs), demo.slowest, tune_table(demo.tunings)])
    for line in (*choice_lines(demo.tunings), *demo.artifacts, "", *shown_in_words(demo), f"report: {REPORT}"):
        click.echo(line)


def _nights(folder: Path, as_json: bool) -> Document:
    """Lets the emulated farm live through its nights, and writes the last one's report."""
    click.echo("\nNights of two emulated phones", err=True)
    *_, night = measure_nights(samples.find(MODEL), NIGHTS_STORE, working_commit(), store_options.tell)
    index = str(write_reports(night, folder).index)
    if not as_json:
        table.show(night_tables(night))
        click.echo(f"\n{one_line(headline(night))}\nreport of the nights: {index}")
    return Document(rows=night.rows, members={"store": str(NIGHTS_STORE), **verdict_members(night, index)})
