"""`farm compare`."""

import functools
import secrets
from collections.abc import Sequence
from pathlib import Path

import click

from farm.cli import FAILED, clusters, store_options, view, work
from farm.cli.detach import detach
from farm.cli.envelope import CommandResult
from farm.cluster import remote_comparison
from farm.cluster.address import ClusterChoice
from farm.config.deployment import Runtime
from farm.config.execution import Execution
from farm.decision.comparison import is_worse
from farm.jobs.compare import sides
from farm.jobs.compare.builds import CompareOptions, compare_job
from farm.jobs.fleet.dispatch import FleetOptions
from farm.rows.compare import CompareRow
from farm.safe_text import one_line
from farm.store.recorder import Recorder
from farm.tables import table
from farm.tables.compare import compare_table, coverage_lines, note_lines, side_text
from farm.units.selection import Selection
from runtime.errors import ConfigError

GOES_ON = "interrupted; the turns that were measured are kept {}, the same command goes on from them"


def compare(
    a: str,
    b: str,
    model_file: Path | None,
    shapes: sides.Shapes,
    weights: Path | None,
    choice: Selection,
    runtimes: tuple[Runtime, ...],
    turns: int,
    repeat: int,
    margin_percent: float | None,
    profiled_turns: int,
    fresh: bool,
    memory: str | None,
    execution: Execution,
    fleet: FleetOptions,
    store: str | None,
    cluster: ClusterChoice | None,
    as_json: bool,
) -> CommandResult:
    """`farm compare`; returns the exit status."""
    kind = sides.common_kind(a, b, store)
    if repeat > 1 and (a != b or kind == "run"):
        raise ConfigError(
            "--repeat asks how often a thing seems to differ from itself: give one file or build as A and B"
        )
    if kind == "run" and cluster and cluster.detach:
        raise ConfigError("--detach: stored runs are compared here and at once, nothing is measured; leave it out")
    if kind == "run":
        compared = sides.compare_stored(a, b, store, margin_percent, store_options.tell)
        with store_options.keeping(store) as keeper:
            rows = list(keeper.recorded(compared))
        return _finish(rows, as_json, keeper)
    both = sides.contenders(kind, a, b, model_file, shapes, weights)
    margin_percent = sides.MARGIN_PERCENT if margin_percent is None else margin_percent
    on = runtimes or ("cpu", "gpu")
    wanted = CompareOptions(
        turns,
        margin_percent,
        on,
        memory,
        secrets.randbelow(2**32),
        execution,
        profiled_turns=profiled_turns,
        repeat=repeat,
        fresh=fresh,
    )
    remote = clusters.RemoteJob(
        CompareRow, remote_comparison.works(both, wanted), adapted=remote_comparison.adapted(both)
    )
    source = both[0].source
    if cluster and cluster.detach:
        return detach(cluster, source, choice, remote.works, as_json, side_names=remote_comparison.side_names(both))
    how_to_go_on = GOES_ON.format("on the hosts" if cluster else "below build/")
    with clusters.place_of(cluster) as place:
        units = place.units_for(source, choice)
        try:
            with view.shown(interrupted=how_to_go_on) as progress, store_options.keeping(store) as keeper:
                job = functools.partial(compare_job, both, units, wanted, fleet, progress)
                rows = list(keeper.recorded(place.rows(job, remote, units, fleet, progress)))
        except KeyboardInterrupt:
            return work.interrupted(how_to_go_on, as_json)
    if as_json:
        _tell_coverage(rows, err=True)
    return _finish(rows, as_json, keeper)


def _finish(rows: Sequence[CompareRow], as_json: bool, keeper: Recorder) -> CommandResult:
    """Shows the rows; the exit status is 1 where B is worse."""
    worse = FAILED if any(map(is_worse, rows)) else 0
    return work.finish(rows, as_json, show, keeper, worse)


def show(rows: Sequence[CompareRow]) -> None:
    """What people see of the rows."""
    _tell_coverage(rows, err=False)
    for name, side in (("A", rows[0].a), ("B", rows[0].b)):
        click.echo(one_line(f"{name}: {side_text(side)}"))
    table.show([compare_table(rows)])
    for line in note_lines(rows):
        click.echo(one_line(line))


def _tell_coverage(rows: Sequence[CompareRow], err: bool) -> None:
    """What repeated comparisons of a thing with itself say of the intervals; nothing of others."""
    if len({(row.model, row.unit, row.runner) for row in rows}) < len(rows):
        for line in coverage_lines(rows):
            click.echo(one_line(line), err=err)
