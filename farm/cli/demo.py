"""`farm demo`."""

from __future__ import annotations

from pathlib import Path

import click

from farm import deployment, tables
from farm.cli import options, store_options, view
from farm.jobs.demo import Demo, demonstrate, write_report
from farm.results import exit_status
from farm.selection import Choice
from farm.tables_run import artifact_lines, run_tables
from farm.tables_tune import tune_table

MODELS = (Path("models/mobilenet_v1.yml"), Path("models/squeezenet_v11.yml"))
REPORT = Path("reports/demo.md")


@click.command(name="demo")
@store_options.store_option
def command(store: str | None) -> int:
    """Run, validate, profile and tune two networks on this machine, and write a report.

    Call it where the folder models/ is.
    """
    units = options.units(Choice(devices=("host",)))
    with store_options.keeping(store) as keeper:
        with view.shown() as watch:
            found = demonstrate([deployment.load(path) for path in MODELS], units, watch)
        for row in found.rows:
            keeper.keep(row)
    write_report(found, REPORT)
    _show(found)
    return max(exit_status(found.rows), keeper.exit_status)


def _show(demo: Demo) -> None:
    tables.show([*run_tables(demo.runs), demo.slowest, tune_table(demo.tunings)])
    for line in (*artifact_lines(demo.tunings), *demo.artifacts):
        click.echo(line)
    options.tell_failures(demo.rows)
    click.echo(f"report: {REPORT}")
