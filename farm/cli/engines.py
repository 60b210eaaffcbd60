"""`farm engines`."""

from __future__ import annotations

from collections.abc import Sequence

import click

from farm.cli import options, store_options, view
from farm.cli.envelope import CommandResult
from farm.config.given_model import GivenModel
from farm.jobs.engines.job import EnginesOptions, engines_job
from farm.jobs.fleet.dispatch import FleetOptions
from farm.jobs.loading import LoadOptions
from farm.rows.engines import EnginesRow
from farm.safe_text import one_line
from farm.tables import table
from farm.tables.engines import engine_tables, fastest_lines
from farm.tables.execution import execution_lines
from farm.tables.run import figure_lines
from farm.units import lookup
from farm.units.selection import Selection


def engines(
    model: GivenModel,
    choice: Selection,
    engines: tuple[str, ...],
    against: str,
    turns: int,
    rounds: int,
    warmup: int,
    load: LoadOptions,
    fleet: FleetOptions,
    store: str | None,
    as_json: bool,
) -> CommandResult:
    """`farm engines`; returns the exit status."""
    source = options.load(model)
    wanted = EnginesOptions(engines, against, turns, rounds, warmup, load)
    units = lookup.units_for(source, choice)
    with store_options.keeping(store) as keeper, view.shown() as progress:
        rows = list(keeper.recorded(engines_job(source, units, wanted, fleet, progress)))
    return options.finish(rows, as_json, show, keeper)


def show(rows: Sequence[EnginesRow]) -> None:
    """What people see of the rows: a table a model and unit, then a line that says which is the fastest."""
    table.show(engine_tables(rows))
    click.echo()
    for line in (*execution_lines(rows), *figure_lines(rows), *fastest_lines(rows)):
        click.echo(one_line(line))
