"""`farm opbench`."""

import functools
import re
from collections.abc import Sequence
from pathlib import Path

import click

from farm.cli import clusters, store_options, view, work
from farm.cli.detach import detach
from farm.cli.envelope import CommandResult, Document
from farm.cluster import sent_jobs
from farm.cluster.address import ClusterChoice
from farm.cluster.sent_jobs import OwedRow
from farm.config.execution import Execution
from farm.jobs.custom_cases import cases_of_files
from farm.jobs.fleet.dispatch import FleetOptions
from farm.jobs.opbench import WORKSPACE, OpbenchOptions, list_benchmarks, opbench_job
from farm.rows.opbench import OpbenchRow
from farm.rows.row import played_note
from farm.rows.status import Status
from farm.tables import table
from farm.tables.execution import hint_lines
from farm.tables.table import Table
from farm.units.selection import Selection
from runtime.errors import ConfigError

COLUMNS = ("Benchmark", "Time(ns)", "Iterations", "Input(MB/s)", "GMACPS", "Spread(%)")


def opbench(
    pattern: str,
    only_list: bool,
    min_time: float,
    all_variants: bool,
    precision: str | None,
    memory: str | None,
    files: Sequence[Path],
    execution: Execution,
    choice: Selection,
    fleet: FleetOptions,
    store: str | None,
    cluster: ClusterChoice | None,
    as_json: bool,
) -> CommandResult:
    """`farm opbench`; returns the exit status."""
    if cluster:
        _check_can_be_sent(files, only_list)
    cases = cases_of_files(files)
    wanted = OpbenchOptions(_compiled(pattern), min_time, all_variants, memory, precision, execution, cases)
    works = sent_jobs.no_model("opbench", _owed(wanted))
    if cluster and cluster.detach:
        return detach(cluster, None, choice, works, as_json)
    remote = clusters.RemoteJob(OpbenchRow, works)
    with clusters.place_of(cluster) as place:
        units = place.units_for(None, choice)
        if only_list:
            return _list(list_benchmarks(units, wanted, fleet), as_json)
        rows: list[OpbenchRow] = []
        try:
            with view.shown(only_slow=True) as progress, store_options.keeping(store) as keeper:
                job = functools.partial(opbench_job, units, wanted, fleet, progress)
                for row in keeper.recorded(place.rows(job, remote, units, fleet, progress)):
                    rows.append(row)
        except KeyboardInterrupt:
            return work.interrupted(_told(rows), as_json, rows, show)
    if not rows:
        raise ConfigError(f"--filter {pattern}: no benchmark of these units matches; --list names them")
    return work.finish(rows, as_json, show, keeper)


def _told(rows: Sequence[OpbenchRow]) -> str:
    return f"interrupted after {len(rows)} benchmark{'' if len(rows) == 1 else 's'}, whose rows are kept"


def _check_can_be_sent(files: Sequence[Path], only_list: bool) -> None:
    """Raises ConfigError for what a cluster does not do."""
    if files:
        raise ConfigError("--operators: custom operators are code, which is not sent to hosts; leave out --cluster")
    if only_list:
        raise ConfigError(f"--list: {clusters.NOT_CARRIED.format('it')}")


def _owed(wanted: OpbenchOptions) -> OwedRow:
    """The row of a unit that times nothing."""
    return OwedRow(WORKSPACE.library, wanted.pattern.pattern, "gpu", wanted.settings)


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


def show(rows: Sequence[OpbenchRow]) -> None:
    """What people see of the rows."""
    paired = any(row.ratio_to_default is not None for row in rows)
    columns = (*COLUMNS, *(["To default"] if paired else []))
    table.show([Table("", columns, [_cells(row)[: len(columns)] for row in rows], frozenset({"Benchmark"}))])
    for row in rows:
        if row.slow_state_ratio and row.slow_state_share:
            share = 100 * row.slow_state_share
            click.echo(
                f"{row.model}: two states: {row.slow_state_ratio:.2f} times as slow in {share:.0f} % of the samples"
            )
    notes = (line for row in rows for line in (played_note(row.fingerprint, row.runtime), *hint_lines(row)) if line)
    for line in dict.fromkeys(notes):
        click.echo(line)


def _cells(row: OpbenchRow) -> list[str]:
    if row.status != Status.OK:
        return [row.model, row.status.value, *["-"] * 5]
    figures = (row.input_mb_s, row.gmacps, row.spread_percent, row.ratio_to_default)
    return [row.model, f"{row.time_ns:.0f}", str(row.iterations), *("-" if f is None else f"{f:.2f}" for f in figures)]
