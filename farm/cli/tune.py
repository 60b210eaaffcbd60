"""`farm tune`."""

import functools
from collections.abc import Sequence
from pathlib import Path

import click

from farm.cli import clusters, store_options, view, work
from farm.cli.detach import detach
from farm.cli.envelope import CommandResult
from farm.cluster import sent_jobs
from farm.cluster.address import ClusterChoice
from farm.config.execution import Execution
from farm.config.given_model import GivenModel
from farm.config.inventory import Unit
from farm.jobs.fleet.dispatch import FleetOptions
from farm.jobs.tune.job import TuneOptions, tune_job
from farm.jobs.tune.received_files import ReceivedFiles
from farm.jobs.tune.search import SearchOptions
from farm.rows.tune import TuneRow
from farm.tables import table
from farm.tables.execution import execution_lines
from farm.tables.run import artifact_lines
from farm.tables.tune import agreement_lines, choice_lines, is_untuned, outcome_lines, tune_table
from farm.units.selection import Selection
from farm.workspace import journal_file
from runtime.errors import ConfigError
from tuner.build_ahead import BuildAhead

GOES_ON = "the next call goes on from them"
MODELS_FOLDER = Path("models")


def tune(
    models: tuple[GivenModel, ...],
    choice: Selection,
    level: str,
    budget_s: float | None,
    selection: bool,
    build_ahead: str,
    fresh: bool,
    repeat: int,
    shared: Path | None,
    fleet: FleetOptions,
    memory: str | None,
    execution: Execution,
    store: str | None,
    cluster: ClusterChoice | None,
    as_json: bool,
) -> CommandResult:
    """`farm tune`; returns the exit status."""
    if repeat > 1 and not fresh:
        raise ConfigError("--repeat: a second search would find what is in the journal of the first; give --fresh too")
    sources = work.load_all(models or _all_models())
    searched = SearchOptions(level, budget_s, memory, fresh, selection, shared, BuildAhead(build_ahead))
    wanted = TuneOptions(searched, execution, repeat)
    works = sent_jobs.all_models("tune", sources, wanted.settings)
    if cluster and cluster.detach:
        return detach(cluster, None, choice, works, as_json, leaves=True)
    remote = clusters.RemoteJob(TuneRow, works, receive=ReceivedFiles().receive)
    with clusters.place_of(cluster) as place:
        units = place.units_for(None, choice)
        how_to_go_on = _how_to_go_on(units, bool(cluster))
        try:
            with view.shown(interrupted=how_to_go_on) as progress, store_options.keeping(store) as keeper:
                job = functools.partial(tune_job, sources, units, wanted, fleet, progress)
                rows = list(keeper.recorded(place.rows(job, remote, units, fleet, progress)))
        except KeyboardInterrupt:
            return work.interrupted(how_to_go_on, as_json)
    return work.finish(rows, as_json, show, keeper, least_status=int(any(map(is_untuned, rows))))


def _all_models() -> list[GivenModel]:
    files = sorted(MODELS_FOLDER.glob("*.yml"))
    if not files:
        raise ConfigError(f"{MODELS_FOLDER}: no deployment files there; name one, as in `farm tune MODEL.yml`")
    return list(map(GivenModel, files))


def _how_to_go_on(units: Sequence[Unit], on_hosts: bool) -> str:
    journals = ", ".join(dict.fromkeys(str(journal_file(unit.soc)) for unit in units))
    return f"interrupted; trials are kept {'on the hosts' if on_hosts else f'in {journals}'}, {GOES_ON}"


def show(rows: Sequence[TuneRow]) -> None:
    """What people see of the rows."""
    table.show([tune_table(rows)])
    for line in (*choice_lines(rows), *agreement_lines(rows), *artifact_lines(rows), *execution_lines(rows)):
        click.echo(line)
    for path in dict.fromkeys(path for row in rows for path in row.artifacts):
        click.echo(path)
    for line in outcome_lines(rows):
        click.echo(line)
