"""`farm run`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from farm.cli import interruption, options, store_options, view
from farm.cli.envelope import CommandResult
from farm.config import deployment
from farm.jobs.fleet.dispatch import FleetOptions
from farm.jobs.loading import LoadOptions
from farm.jobs.run import RunOptions, run_job
from farm.rows.run import RunRow
from farm.tables import table
from farm.tables.execution import execution_lines
from farm.tables.run import artifact_lines, run_tables
from farm.units import lookup
from farm.units.selection import Selection

GOES_ON = "interrupted; what was measured is kept below build/, the next call goes on from it"


def run(
    model_file: Path,
    choice: Selection,
    rounds: int,
    warmup: int,
    validate: bool,
    layers: bool,
    inputs: tuple[str, ...],
    input_dir: Path | None,
    output_dir: Path | None,
    example: bool,
    load: LoadOptions,
    fleet: FleetOptions,
    store: str | None,
    trust_models: bool,
    as_json: bool,
) -> CommandResult:
    """`farm run`; returns the exit status."""
    source = deployment.load(model_file, trust_models)
    units = lookup.units_for(source, choice)
    wanted = RunOptions(rounds, warmup, validate, layers, inputs, output_dir, load, input_dir, example)
    said = GOES_ON if input_dir else interruption.INTERRUPTED
    with store_options.keeping(store) as keeper, view.shown(only_on_terminal=True, interrupted=said) as progress:
        rows = list(keeper.recorded(run_job(source, units, wanted, fleet, progress)))
    return options.finish(rows, as_json, _show, keeper)


def _show(rows: Sequence[RunRow]) -> None:
    table.show(run_tables(rows))
    for line in (*artifact_lines(rows), *execution_lines(rows)):
        click.echo(line)
