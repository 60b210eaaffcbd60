"""`farm engines`."""

from collections.abc import Sequence
from pathlib import Path

import click

from farm.cli import store_options, view, work
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

GOES_ON = "interrupted; what was measured is shown and kept, the same command goes on from it"


def engines(
    model: GivenModel,
    choice: Selection,
    engines: tuple[str, ...],
    against: str,
    turns: int | None,
    rounds: int | None,
    warmup: int,
    fresh: bool,
    load: LoadOptions,
    fleet: FleetOptions,
    html: Path | None,
    store: str | None,
    as_json: bool,
) -> CommandResult:
    """`farm engines`; returns the exit status."""
    source = work.load(model)
    wanted = EnginesOptions(engines, against, turns, rounds, warmup, fresh, load)
    units = lookup.units_for(source, choice)
    rows: list[EnginesRow] = []
    try:
        with view.shown(interrupted=GOES_ON) as progress, store_options.keeping(store) as keeper:
            for row in keeper.recorded(engines_job(source, units, wanted, fleet, progress)):
                rows.append(row)
    except KeyboardInterrupt:
        _write_page(rows, html)
        return work.interrupted(GOES_ON, as_json, rows, show)
    return work.finish(rows, as_json, show, keeper, _write_page(rows, html))


def _write_page(rows: Sequence[EnginesRow], html: Path | None) -> int:
    if not html:
        return 0
    from farm.report.engines_page import engines_page

    return work.written(html, engines_page(rows))


def show(rows: Sequence[EnginesRow]) -> None:
    """What people see of the rows: a table a model and unit, then a line that says which is the fastest."""
    table.show(engine_tables(rows))
    click.echo()
    for line in (*execution_lines(rows), *figure_lines(rows), *fastest_lines(rows)):
        click.echo(one_line(line))
