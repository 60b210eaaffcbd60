"""`farm run`."""

import functools
from collections.abc import Sequence
from pathlib import Path

import click

from farm.cli import clusters, interruption, store_options, verbosity, view, work
from farm.cli.detach import detach
from farm.cli.envelope import CommandResult
from farm.cli.next_step import next_command
from farm.cluster import sent_jobs
from farm.cluster.address import ClusterChoice
from farm.config.given_model import GivenModel
from farm.jobs.fleet.dispatch import FleetOptions
from farm.jobs.loading import LoadOptions
from farm.jobs.run import RunOptions, run_job, run_settings
from farm.rows.run import RunRow
from farm.safe_text import one_line
from farm.tables import table
from farm.tables.execution import execution_lines
from farm.tables.run import artifact_lines, figure_lines, run_tables
from farm.tables.run_end import end_lines, end_tables, next_step
from farm.units.selection import Selection

GOES_ON = "interrupted; what was measured is kept below build/, the next call goes on from it"


def run(
    model: GivenModel,
    choice: Selection,
    rounds: int,
    warmup: int,
    validate: bool,
    layers: bool,
    inputs: tuple[str, ...],
    input_dir: Path | None,
    output_dir: Path | None,
    example: bool,
    engines: tuple[str, ...],
    load: LoadOptions,
    fleet: FleetOptions,
    store: str | None,
    cluster: ClusterChoice | None,
    as_json: bool,
) -> CommandResult:
    """`farm run`; returns the exit status."""
    source = work.load(model)
    wanted = RunOptions(rounds, warmup, validate, layers, inputs, output_dir, load, input_dir, example, engines)
    said = GOES_ON if input_dir else interruption.INTERRUPTED
    if cluster and cluster.detach:
        works = sent_jobs.all_models("run", [source], run_settings(wanted), wanted.lanes)
        return detach(cluster, source, choice, works, as_json)
    with clusters.place_of(cluster) as place:
        units = place.units_for(source, choice)
        remote = clusters.RemoteJob(
            RunRow, sent_jobs.each_model(source, run_settings(wanted), wanted.lanes), output_dir
        )
        with view.shown(only_slow=True, interrupted=said) as progress, store_options.keeping(store) as keeper:
            job = functools.partial(run_job, source, units, wanted, fleet, progress)
            rows = list(keeper.recorded(place.rows(job, remote, units, fleet, progress)))
    return work.finish(rows, as_json, show, keeper)


def show(rows: Sequence[RunRow]) -> None:
    """What people see of the rows: how it ended; with -v all figures before that."""
    verbose = verbosity.is_wanted()
    tables = run_tables(rows) if verbose else end_tables(rows)
    table.show(tables)
    lines = [
        *artifact_lines(rows, only_unused=not verbose),
        *execution_lines(rows),
        *figure_lines(rows),
        *end_lines(rows),
    ]
    step = next_step(rows)
    following = next_command(*step) if step else ""
    if following and len(rows) == 1:
        lines[-1] += f"; next: {following}"
    elif following:
        lines.append(f"next: {following}")
    if tables and lines:
        click.echo()
    for line in lines:
        click.echo(one_line(line))
