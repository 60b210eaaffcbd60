"""Where a command's units are: on this host, or on all hosts of a cluster (`--cluster`)."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import click
from click.core import ParameterSource

from farm.cli import store_options
from farm.cluster.address import ClusterChoice
from farm.config.deployment import Deployment
from farm.config.inventory import Unit
from farm.jobs.commit import working_commit
from farm.jobs.fleet.dispatch import FleetOptions
from farm.jobs.fleet.progress import ProgressView
from farm.rows.row import Row
from farm.units import lookup
from farm.units.selection import SelectableUnit, Selection, select
from runtime.host import extras

if TYPE_CHECKING:  # distributed and onnx take a second to import
    from farm.cluster.client import ClusterSession
    from farm.cluster.remote_comparison import SideNames
    from farm.cluster.sent_jobs import Works
    from farm.jobs.bisect.job import Compare
    from farm.jobs.compare.builds import CompareOptions
    from farm.jobs.compare.contender import Contender
    from farm.jobs.nightly.matrix import Places
    from farm.jobs.nightly.run import NightJob
    from farm.rows.compare import CompareRow

RowType = TypeVar("RowType", bound=Row)

NOT_CARRIED = "{} works with the units of this host alone: leave out --cluster and FARM_CLUSTER (--cluster '' does)"
PURPOSE = "work on many hosts (--cluster)"
# What a command does with its rows, whoever does it: no host is told of it.
OF_ROWS = frozenset(
    {"a", "as_json", "b", "certificates", "cluster", "detach", "model_file", "model_files", "priority", "shared"}
    | {"store", "trace", "html", "dry_run", "nightly_file", "output", "resume", "share"}
)
# What the client does for all hosts: one that goes on without it is told.
OF_CLIENT = frozenset({"device", "every", "fail_fast", "one_per_soc", "retries", "soc", "spread", "tag"})
NOT_SENT = OF_ROWS | OF_CLIENT
NO_RETRIES = ("--retries", "0")  # a host retries nothing by itself: where a job is done again its client decides
OUTPUTS = "output_dir"
NAMED_FILES = "inputs"  # [NAME=]FILE


@dataclasses.dataclass(frozen=True)
class RemoteJob(Generic[RowType]):
    """What a cluster must know of a command beside its options: see SentCommand, and sent_jobs for its works."""

    row_type: type[RowType]
    works: Works
    output_folder: Path | None = None
    receive: Callable[[Path], None] | None = None
    adapted: Callable[[dict[str, Any]], dict[str, Any]] = dict


class ThisHost:
    """The units of devices.yml, and those that are plugged in."""

    def candidates(self) -> list[SelectableUnit]:
        """Returns all units, each once."""
        return lookup.candidates()

    def units_for(self, source: Deployment | None, choice: Selection) -> list[Unit]:
        """See lookup.units_for."""
        return lookup.units_for(source, choice) if source else lookup.chosen_units(choice)

    def rows(self, job: Callable[[], Iterator[RowType]], *_: Any) -> Iterator[RowType]:
        """Returns the rows that the job makes on this host's units."""
        return job()

    def nights(self, places: Places, fleet: FleetOptions, progress: ProgressView, *_: Any) -> NightJob:
        """This process measures."""
        from farm.jobs.nightly.matrix import nightly_job

        return functools.partial(nightly_job, places, fleet=fleet, progress=progress)

    @property
    def compare(self) -> None:
        """This process compares."""
        return None


@dataclasses.dataclass(frozen=True)
class AllHosts:
    """The units that the hosts of a cluster offer."""

    cluster: ClusterSession

    def candidates(self) -> list[SelectableUnit]:
        """Returns the units of all hosts; says which hosts do not answer."""
        there: dict[str, SelectableUnit] = {}
        for host in self.cluster.reports():
            if host.error:
                click.echo(f"{host.name}: {host.error}", err=True)
            for report in host.units:
                there.setdefault(report.unit.name, SelectableUnit(report.unit, report.state))
        return list(there.values())

    def units_for(self, source: Deployment | None, choice: Selection) -> list[Unit]:
        """Returns the units that the user names, else the units that the deployment file is for."""
        units = self.candidates()
        return lookup.units_among(units, source, choice) if source else select(units, choice)

    def rows(
        self,
        job: Callable[[], Iterator[RowType]],
        remote: RemoteJob[RowType],
        units: Sequence[Unit],
        fleet: FleetOptions,
        progress: ProgressView,
    ) -> Iterator[RowType]:
        """Returns the rows that hosts make when they run the same command line."""
        from farm.cluster.job_files import sent_arguments
        from farm.cluster.remote_rows import SentCommand, remote_rows

        name, options, files = sent_command(click.get_current_context())
        given = (remote.row_type, name, options, sent_arguments(files))
        command = SentCommand(*given, remote.output_folder, remote.receive, remote.adapted)
        yield from remote_rows(self.cluster, command, remote.works, units, fleet, progress)

    def send_off(self, units: Sequence[Unit], works: Works, leaves: bool, side_names: SideNames) -> str:
        """Has a host that offers one of the units be the client of the command that was called; the host's name.

        `works` makes its only work; `leaves`: what it leaves below build/ is wanted; `side_names`: see
        remote_comparison.
        """
        from farm.cluster.detached import REQUESTS, DetachedRequest
        from farm.cluster.job_files import JobFiles, job_scratch, sent_arguments

        job, run = self.cluster.job, store_options.own_run(working_commit()).model_dump(mode="json")
        options, named = detached_options(click.get_current_context())
        with job_scratch() as folder:
            (work,) = works(Path(folder))
            files = JobFiles.of({**work.files, **sent_arguments(named)})
            arguments = [job.command, *work.arguments, *options, "--priority", job.priority]
            names = {side: dict(members) for side, members in side_names.items()}
            request = DetachedRequest(job, arguments, dict(files.hashes), leaves, run, names)
            return self.cluster.send_off([unit.name for unit in units], REQUESTS.dump_json(request), files.sources)

    def nights(
        self, places: Places, fleet: FleetOptions, progress: ProgressView, say: Callable[[str], None]
    ) -> NightJob:
        """Has hosts measure."""
        from farm.cluster.remote_nights import remote_nights

        _, options, _ = sent_command(click.get_current_context())
        return functools.partial(remote_nights, self.cluster, options, places, fleet, progress, say)

    @property
    def compare(self) -> Compare:
        """Has hosts compare."""
        return self._compared

    def _compared(
        self,
        both: tuple[Contender, Contender],
        units: Sequence[Unit],
        options: CompareOptions,
        fleet: FleetOptions,
        progress: ProgressView,
    ) -> Iterator[CompareRow]:
        """Comparisons that another command asks for: `farm bisect` makes one for each commit."""
        from farm.cluster import remote_comparison
        from farm.cluster.remote_rows import SentCommand, remote_rows
        from farm.rows import compare

        words, _ = sent_options(_command("compare"), {**vars(options), **vars(fleet), **options.execution.given})
        sent = SentCommand(compare.CompareRow, "compare", words, {}, adapted=remote_comparison.adapted(both))
        yield from remote_rows(self.cluster, sent, remote_comparison.works(both, options), units, fleet, progress)


@contextlib.contextmanager
def place_of(choice: ClusterChoice | None) -> Iterator[ThisHost | AllHosts]:
    """Where a command's units are, for as long as it runs."""
    if choice is None:
        yield ThisHost()
        return
    with joined(choice) as cluster:
        yield AllHosts(cluster)


@contextlib.contextmanager
def joined(choice: ClusterChoice) -> Iterator[ClusterSession]:
    """A session with the cluster for as long as a command runs."""
    extras.load(PURPOSE, "distributed")
    from farm.cluster import client
    from farm.cluster.address import parse_cluster_address

    name = click.get_current_context().info_name or ""
    with client.joined(parse_cluster_address(choice.url), choice.certificates, name, choice.priority) as cluster:
        yield cluster


def sent_command(context: click.Context) -> tuple[str, tuple[str, ...], list[tuple[str, Path]]]:
    """The command that was called, its options for a host's unit, and the files and folders that these name."""
    return context.info_name or "", *sent_options(context.command, _given(context))


def detached_options(context: click.Context) -> tuple[tuple[str, ...], list[tuple[str, Path]]]:
    """The options of the command that was called for a host that is its client, and the files that these name."""
    return _options_without(OF_ROWS, context.command, _given(context))


def _given(context: click.Context) -> dict[str, Any]:
    """Returns the options that the user gave, by parameter name."""
    return {
        name: value
        for name, value in context.params.items()
        if context.get_parameter_source(name) != ParameterSource.DEFAULT
    }


def _command(name: str) -> click.Command:
    """Another command of farm than the one that was called."""
    context = click.get_current_context().find_root()
    assert isinstance(context.command, click.Group)
    found = context.command.get_command(context, name)
    assert found
    return found


def sent_options(command: click.Command, values: Mapping[str, Any]) -> tuple[tuple[str, ...], list[tuple[str, Path]]]:
    """The options of a command for a host's unit, of values by parameters' names, and the files that these name."""
    options, files = _options_without(NOT_SENT, command, values)
    return (*NO_RETRIES, *options), files


def _options_without(
    left_out: AbstractSet[str], command: click.Command, values: Mapping[str, Any]
) -> tuple[tuple[str, ...], list[tuple[str, Path]]]:
    options: list[str] = []
    files: list[tuple[str, Path]] = []
    for parameter in command.params:
        if parameter.name not in left_out and (value := values.get(parameter.name or "")) is not None:
            options += _sent_option(parameter, value, files)
    return tuple(options), files


def _sent_option(parameter: click.Parameter, value: Any, files: list[tuple[str, Path]]) -> list[str]:
    name = next(option for option in parameter.opts if option.startswith("--"))
    if parameter.name == OUTPUTS:
        return [name, "outputs"]
    if isinstance(parameter, click.Option) and parameter.is_flag:
        return [name] if value else parameter.secondary_opts[:1]
    values = value if parameter.multiple else (value,)
    return [word for each in values for word in (name, _sent_value(str(parameter.name), each, files))]


def _sent_value(parameter: str, value: Any, files: list[tuple[str, Path]]) -> str:
    """A value as a host reads it; a file of this host becomes one of the job's."""
    prefix, separator, path = str(value).rpartition("=") if parameter == NAMED_FILES else ("", "", str(value))
    is_file = parameter == NAMED_FILES or (isinstance(value, Path) and value.exists())
    if not is_file:
        return str(value)
    sent = f"arguments/{len(files)}/{Path(path).name}"
    files.append((sent, Path(path)))
    return f"{prefix}{separator}{sent}"
