"""`farm opbench`."""

from __future__ import annotations

import re
from collections.abc import Sequence

import click

from farm.cli import options, store_options, view
from farm.cli.envelope import CommandResult, Document
from farm.cli.fleet_options import fleet_options
from farm.jobs.fleet.dispatch import FleetOptions
from farm.jobs.opbench import OpbenchOptions, list_benchmarks, opbench_job
from farm.rows.opbench import OpbenchRow
from farm.rows.status import Status
from farm.tables import table
from farm.tables.table import Table
from farm.units.selection import Selection
from runtime.errors import ConfigError
from runtime.types import Precision

COLUMNS = ("Benchmark", "Time(ns)", "Iterations", "Input(MB/s)", "GMACPS", "Spread(%)")
PRECISIONS = [precision.name.lower() for precision in Precision]


@click.command(name="opbench")
@click.option("--filter", "pattern", metavar="REGEX", default=".", help="Benchmarks whose name holds this.")
@click.option("--list", "only_list", is_flag=True, help="Print the names and run nothing.")
@click.option(
    "--min-time",
    type=click.FloatRange(0.001, 600),
    default=0.2,
    show_default=True,
    help="Seconds of device time for each; up to five times that where times vary.",
)
@click.option("--variants", "all_variants", is_flag=True, help="Every variant of each kernel, not only the default.")
@click.option("--precision", type=click.Choice(PRECISIONS), help="Only this precision.  [default: all of the unit]")
@click.option("--memory", type=click.Choice(["buffer", "image"]), help="Only this memory.  [default: all of the unit]")
@options.unit_options
@fleet_options("farm opbench")
@store_options.store_option
@options.json_option
def command(
    pattern: str,
    only_list: bool,
    min_time: float,
    all_variants: bool,
    precision: str | None,
    memory: str | None,
    choice: Selection,
    fleet: FleetOptions,
    store: str | None,
    as_json: bool,
) -> CommandResult:
    """Time single operators: each kernel of the kernel table on typical shapes.

    Names are KERNEL/MEMORY/PRECISION/CASE/VARIANT, say
    conv1x1/buffer/fp32/Conv_1x512x14x14_K1x1S1x1D1x1G1_512/BLOCK16_VECTOR16_PIXELS8_FMA1.
    Time is the median; spread is the half-width of its 95 % interval.
    """
    wanted = OpbenchOptions(_compiled(pattern), min_time, all_variants, memory, precision)
    units = options.units(choice)
    if only_list:
        return _list(list_benchmarks(units, wanted, fleet), as_json)
    with store_options.keeping(store) as keeper, view.shown(only_on_terminal=True) as progress:
        rows = list(keeper.recorded(opbench_job(units, wanted, fleet, progress)))
    if not rows:
        raise ConfigError(f"--filter {pattern}: no benchmark of these units matches; --list names them")
    return options.finish(rows, as_json, _show, keeper)


def _list(names: Sequence[str], as_json: bool) -> CommandResult:
    if as_json:
        return Document(members={"benchmarks": names})
    for name in names:
        click.echo(name)
    return 0


def _compiled(pattern: str) -> re.Pattern[str]:
    try:
        return re.compile(pattern)
    except re.error as error:
        raise ConfigError(f"--filter {pattern}: not a regular expression: {error}") from None


def _show(rows: Sequence[OpbenchRow]) -> None:
    table.show([Table("", COLUMNS, [_cells(row) for row in rows], frozenset({"Benchmark"}))])


def _cells(row: OpbenchRow) -> list[str]:
    if row.status != Status.OK:
        return [row.model, row.status.value, *["-"] * 4]
    figures = (row.input_mb_s, row.gmacps, row.spread_percent)
    return [row.model, f"{row.time_ns:.0f}", str(row.iterations), *("-" if f is None else f"{f:.2f}" for f in figures)]
