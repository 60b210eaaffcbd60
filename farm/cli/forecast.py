"""`farm forecast`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from farm.cli import options
from farm.config import deployment
from farm.forecast import ForecastRow
from farm.jobs.fleet.dispatch import FleetOptions
from farm.jobs.forecast import forecast_for_file, forecast_job
from farm.rows.row import Status
from farm.tables import table as tables
from farm.tables.forecast import forecast_tables
from farm.units import lookup
from farm.units.selection import ANY, Choice


def forecast(
    model_file: Path,
    choice: Choice,
    target_file: Path | None,
    fleet: FleetOptions,
    memory: str | None,
    as_json: bool,
) -> int:
    """`farm forecast`; returns the exit status."""
    found = deployment.load(model_file)
    if target_file:
        if choice != ANY or fleet.opencl:
            raise click.UsageError("--target-file takes the place of units and --opencl")
        rows = forecast_for_file(found, target_file, memory)
    else:
        rows = forecast_job(found, lookup.units_for(found, choice), memory, fleet)
    return options.finish(rows, as_json, _show)


def _show(rows: Sequence[ForecastRow]) -> None:
    tables.show([table for row in rows if row.status == Status.OK for table in forecast_tables(row)])
