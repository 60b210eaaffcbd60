"""`farm benchmark`."""

import functools
from collections.abc import Sequence
from pathlib import Path

import click

from farm.cli import clusters, store_options, view, work
from farm.cli.detach import detach
from farm.cli.envelope import CommandResult
from farm.cluster import sent_jobs
from farm.cluster.address import ClusterChoice
from farm.config.given_model import GivenModel
from farm.jobs.benchmark import BenchmarkOptions, benchmark_job, benchmark_settings
from farm.jobs.fleet.dispatch import FleetOptions
from farm.jobs.loading import LoadOptions
from farm.rows.benchmark import BenchmarkRow
from farm.rows.status import Status
from farm.safe_text import one_line
from farm.tables import table
from farm.tables.benchmark import sections, trace_json
from farm.tables.execution import execution_lines
from farm.tables.run import selection_lines
from farm.units.selection import Selection


def benchmark(
    model: GivenModel,
    choice: Selection,
    rounds: int,
    warmup: int,
    load: LoadOptions,
    fleet: FleetOptions,
    trace: Path | None,
    html: Path | None,
    store: str | None,
    cluster: ClusterChoice | None,
    as_json: bool,
) -> CommandResult:
    """`farm benchmark`; returns the exit status."""
    source = work.load(model)
    wanted = BenchmarkOptions(rounds, warmup, load)
    if cluster and cluster.detach:
        works = sent_jobs.all_models("benchmark", [source], benchmark_settings(wanted))
        return detach(cluster, source, choice, works, as_json)
    with clusters.place_of(cluster) as place:
        units = place.units_for(source, choice)
        remote = clusters.RemoteJob(BenchmarkRow, sent_jobs.each_model(source, benchmark_settings(wanted)))
        with view.shown(only_slow=True) as progress, store_options.keeping(store) as keeper:
            job = functools.partial(benchmark_job, source, units, wanted, fleet, progress)
            rows = list(keeper.recorded(place.rows(job, remote, units, fleet, progress)))
    return work.finish(rows, as_json, show, keeper, write_files(rows, trace, html))


def write_files(rows: Sequence[BenchmarkRow], trace: Path | None, html: Path | None) -> int:
    """The files that were asked for beside the rows; 1 where one cannot be written, which is told."""
    status = work.written(trace, trace_json(rows)) if trace else 0
    if html:
        from farm.report.benchmark_page import benchmark_page

        status = max(status, work.written(html, benchmark_page(rows)))
    return status


def show(rows: Sequence[BenchmarkRow]) -> None:
    """What people see of the rows."""
    for row in rows:
        if row.status == Status.OK:
            click.echo(f"{row.model} on {row.unit} ({row.runtime}, {row.fingerprint['gpu'] or 'CPU'})\n")
            table.show(sections(row))
            click.echo(f"\nOperators' sum / wall time: {row.sum_to_wall:.3f}")
            for line in (*selection_lines([row]), *execution_lines([row])):
                click.echo(one_line(line))
            click.echo()
