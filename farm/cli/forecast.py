"""`farm forecast`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from farm.cli import options
from farm.cli.envelope import CommandResult
from farm.cli.fleet_options import fleet_options
from farm.jobs.fleet.dispatch import FleetOptions
from farm.jobs.forecast import forecast_for_file, forecast_job
from farm.rows.forecast import ForecastRow
from farm.rows.status import Status
from farm.tables import table as tables
from farm.tables.forecast import forecast_tables
from farm.units.selection import ANY, Selection


@click.command(name="forecast")
@options.model_argument
@options.unit_options
@click.option("--target-file", metavar="FILE", type=options.FILE, help="What `farmrt probe` printed on another unit.")
@fleet_options("farm forecast")
@options.memory_option
@options.json_option
def command(
    model_file: Path,
    choice: Selection,
    target_file: Path | None,
    fleet: FleetOptions,
    memory: str | None,
    as_json: bool,
) -> CommandResult:
    """Say what the models of MODEL.yml will do, before anything runs.

    Which operator runs where and why, where a format is converted, multiply-accumulates, weights and memory.
    """
    source = options.load_deployment(model_file)
    if target_file:
        if choice != ANY or fleet.opencl:
            raise click.UsageError("--target-file takes the place of units and --opencl")
        rows = forecast_for_file(source, target_file, memory)
    else:
        rows = forecast_job(source, options.select_units(choice, source), memory, fleet)
    return options.finish(rows, as_json, _show)


def _show(rows: Sequence[ForecastRow]) -> None:
    tables.show([table for row in rows if row.status == Status.OK for table in forecast_tables(row)])
