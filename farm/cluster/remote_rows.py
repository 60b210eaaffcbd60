"""A command's rows from the units of other hosts: those that it would make here, under the units' names."""

import dataclasses
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Generic, TypeVar

from farm.cluster.client import ClusterSession
from farm.cluster.job_files import JobFiles, job_scratch
from farm.cluster.remote_units import ReceiveFiles, RemoteCommand, RemoteUnit, run_on_hosts
from farm.cluster.sent_jobs import OwedRow, SentWork, Works
from farm.config.inventory import Unit
from farm.jobs.fleet.dispatch import FleetOptions, Job
from farm.jobs.fleet.job_rows import is_ok, unit_groups
from farm.jobs.fleet.progress import ProgressView, replay
from farm.rows.result import Conditions, make_row
from farm.rows.row import Failure, Identity, Row
from farm.rows.status import Status
from runtime.errors import DeviceLostError, FarmError, ProcessKilledError

RowType = TypeVar("RowType", bound=Row)
RowKey = tuple[str, str, str, int]  # model, runtime, engine, and which of several such rows
DONE_ELSEWHERE = {Status.DEVICE_LOST: DeviceLostError, Status.KILLED: ProcessKilledError}


@dataclasses.dataclass(frozen=True)
class SentCommand(Generic[RowType]):
    """A command for units of other hosts.

    Attributes:
        row_type: of its rows.
        name: the command, as `run`.
        options: its options, with paths in the job's folder.
        files: the files that those name: path in the job's folder -> file.
        output_folder: where files come that it writes where an option is `outputs`.
        receive: takes what it left below build/; None: nothing of that comes back.
        adapted: makes a row's data, as a host prints it, what this host calls things.
    """

    row_type: type[RowType]
    name: str
    options: tuple[str, ...]
    files: Mapping[str, Path]
    output_folder: Path | None = None
    receive: ReceiveFiles | None = None
    adapted: Callable[[dict[str, Any]], dict[str, Any]] = dict


def remote_rows(
    cluster: ClusterSession,
    command: SentCommand[RowType],
    works: Works,
    units: Sequence[Unit],
    fleet: FleetOptions,
    progress: ProgressView,
) -> Iterator[RowType]:
    """The rows of each unit and work as soon as they are there; raises JobError where somebody cancels the job."""
    cluster.show_events(lambda event: replay(event, progress, str(event["unit"])))
    with job_scratch() as folder:
        sent = [(work, _remote(command, work)) for work in works(Path(folder))]
        jobs = [
            Job(group, each.run, _all_ok, each.failed, each.work.cost)
            for group in unit_groups(units, fleet.spread)
            for each in (_UnitWork(command, work, remote, {}) for work, remote in sent)
        ]
        for rows in run_on_hosts(cluster, jobs, fleet, progress):
            yield from rows


def _remote(command: SentCommand[RowType], work: SentWork) -> RemoteCommand:
    files = JobFiles.of({**work.files, **command.files})
    arguments = (command.name, *work.arguments, *command.options)
    return RemoteCommand(arguments, files, command.output_folder, command.receive)


def _all_ok(rows: Sequence[Row]) -> bool:
    return all(map(is_ok, rows))


@dataclasses.dataclass(frozen=True, eq=False)
class _UnitWork(Generic[RowType]):
    """A work on one unit of a group; `rows` are those that are there, also after a unit was lost."""

    command: SentCommand[RowType]
    work: SentWork
    remote: RemoteCommand
    rows: dict[RowKey, RowType]

    def run(self, opened: RemoteUnit) -> Iterator[list[RowType]]:
        """All rows. Raises what tells that the job may be done again."""
        document = opened.run(self.work.name, lambda: self.remote)
        count: Counter[tuple[str, str, str]] = Counter()
        for data in document["rows"]:
            row = self.command.row_type.model_validate({**self.command.adapted(data), "unit": opened.unit.name})
            lane = (row.model, row.runtime, row.engine)
            key = (*lane, count[lane])
            count[lane] += 1
            before = self.rows.get(key)
            if before is None or before.status in DONE_ELSEWHERE:
                self.rows[key] = row
        for row in self.rows.values():
            if row.status in DONE_ELSEWHERE:
                raise DONE_ELSEWHERE[row.status](row.reason)
        yield list(self.rows.values())

    def failed(self, unit: Unit, error: FarmError) -> list[RowType]:
        """The rows that there are, and one of each that is owed and missing."""
        there = {key[:3] for key in self.rows}
        missing = [owed for owed in self.work.owed if (owed.model, owed.runtime, owed.engine) not in there]
        return [*self.rows.values(), *(self._failed_row(unit, owed, error) for owed in missing)]

    def _failed_row(self, unit: Unit, owed: OwedRow, error: FarmError) -> RowType:
        identity = Identity(
            unit=unit.name,
            soc=unit.soc,
            device_model=unit.model,
            library=owed.library,
            model=owed.model,
            runtime=owed.runtime,
            engine=owed.engine,
        )
        row = make_row(self.command.row_type, identity, Conditions(owed.settings), Failure.of(error))
        return self.command.row_type.model_validate(self.command.adapted(row.model_dump(mode="json")))
