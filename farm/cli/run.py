"""`farm run`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from farm.cli import options, store_options, view
from farm.config import deployment
from farm.jobs.fleet.dispatch import FleetOptions
from farm.jobs.run import LoadOptions, RunOptions, run_job
from farm.rows.row import RunRow
from farm.tables import table
from farm.tables.run import artifact_lines, run_tables
from farm.units import lookup
from farm.units.selection import Choice


def run(
    model_file: Path,
    choice: Choice,
    rounds: int,
    warmup: int,
    validate: bool,
    layers: bool,
    inputs: tuple[str, ...],
    output_dir: Path | None,
    load: LoadOptions,
    fleet: FleetOptions,
    store: str | None,
    as_json: bool,
) -> int:
    """`farm run`; returns the exit status."""
    found = deployment.load(model_file)
    units = lookup.units_for(found, choice)
    asked = RunOptions(rounds, warmup, validate, layers, inputs, output_dir, load)
    with store_options.keeping(store) as keeper, view.shown(only_on_terminal=True) as watch:
        rows = list(keeper.kept(run_job(found, units, asked, fleet, watch)))
    return options.finish(rows, as_json, _show, keeper)


def _show(rows: Sequence[RunRow]) -> None:
    table.show(run_tables(rows))
    for line in artifact_lines(rows):
        click.echo(line)
