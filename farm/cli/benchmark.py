"""`farm benchmark`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from farm import atomic_file
from farm.cli import options, store_options, view
from farm.cli.envelope import CommandResult
from farm.cli.fleet_options import fleet_options
from farm.jobs.benchmark import BenchmarkOptions, benchmark_job
from farm.jobs.fleet.dispatch import FleetOptions
from farm.jobs.run import LoadOptions
from farm.rows.benchmark import BenchmarkRow
from farm.rows.status import Status
from farm.tables import table
from farm.tables.benchmark import sections
from farm.tables.trace import trace_json
from farm.units.selection import Selection


@click.command(name="benchmark")
@options.model_argument
@options.unit_options
@click.option(
    "--round", "rounds", type=click.IntRange(1, 100_000), default=100, show_default=True, help="Measured rounds."
)
@options.warmup_option
@options.load_options
@fleet_options("farm benchmark", spreads=True)
@click.option("--trace", metavar="FILE", type=options.FILE, help="Write a trace for Perfetto or chrome://tracing.")
@store_options.store_option
@options.json_option
def command(
    model_file: Path,
    choice: Selection,
    rounds: int,
    warmup: int,
    load: LoadOptions,
    fleet: FleetOptions,
    trace: Path | None,
    store: str | None,
    as_json: bool,
) -> CommandResult:
    """Profile the models of MODEL.yml, operator by operator.

    Warm-up, rounds without and with operator times, operators in run order and by time, by type, multiply-accumulates
    and a summary. All times are in milliseconds, rates in 10^9 a second.
    """
    source = options.load_deployment(model_file)
    units = options.select_units(choice, source)
    with store_options.keeping(store) as keeper, view.shown(only_on_terminal=True) as progress:
        rows = list(
            keeper.recorded(benchmark_job(source, units, BenchmarkOptions(rounds, warmup, load), fleet, progress))
        )
    if trace:
        atomic_file.write(trace, trace_json(rows).encode())
    return options.finish(rows, as_json, _show, keeper)


def _show(rows: Sequence[BenchmarkRow]) -> None:
    for row in rows:
        if row.status == Status.OK:
            click.echo(f"{row.model} on {row.unit} ({row.runtime}, {row.fingerprint['gpu'] or 'CPU'})\n")
            table.show(sections(row))
            click.echo(f"\nOperators' sum / wall time: {row.sum_to_wall:.3f}\n")
