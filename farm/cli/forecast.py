"""`farm forecast`."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import click

from farm import soc
from farm.cli import options
from farm.cli.envelope import CommandResult
from farm.config.deployment import Deployment
from farm.config.given_model import GivenModel
from farm.jobs.fleet.dispatch import FleetOptions
from farm.jobs.forecast import forecast_for_file, forecast_for_soc, forecast_job
from farm.jobs.targets import TargetFiles, known_socs, names_single_units
from farm.rows.forecast import ForecastRow
from farm.rows.status import Status
from farm.tables import table as tables
from farm.tables.forecast import forecast_tables
from farm.units import lookup
from farm.units.selection import ANY, Selection


def forecast(
    model: GivenModel,
    choice: Selection,
    target_file: Path | None,
    fleet: FleetOptions,
    memory: str | None,
    as_json: bool,
) -> CommandResult:
    """`farm forecast`; returns the exit status."""
    source = options.load(model)
    if target_file:
        if choice != ANY or fleet.opencl:
            raise click.UsageError("--target-file takes the place of units and --opencl")
        rows = forecast_for_file(source, target_file, memory)
    elif choice.socs and not names_single_units(choice):
        rows = _of_socs(source, choice, memory, fleet)
    else:
        rows = forecast_job(source, lookup.units_for(source, choice), memory, fleet)
    return options.finish(rows, as_json, _show)


def _of_socs(source: Deployment, choice: Selection, memory: str | None, fleet: FleetOptions) -> Iterator[ForecastRow]:
    """Forecasts for the units of some SoCs, and from stored facts for SoCs of which no unit is here."""
    units = lookup.units_of_socs(choice, known_socs(TargetFiles(())))
    yield from forecast_job(source, units, memory, fleet) if units else ()
    present = {soc.normalise(unit.soc) for unit in units}
    for key in dict.fromkeys(map(soc.normalise, choice.socs)):
        if key not in present:
            yield from forecast_for_soc(source, key, memory)


def _show(rows: Sequence[ForecastRow]) -> None:
    tables.show([table for row in rows if row.status == Status.OK for table in forecast_tables(row)])
