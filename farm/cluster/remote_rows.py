"""A command's rows from the units of other hosts: those that it would make here, under the units' names."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Generic, TypeVar

from farm.cluster.client import ClusterSession, JobCancelled
from farm.cluster.job_files import DEPLOYMENT, files_of_model, job_scratch
from farm.cluster.remote_units import ClusterExecutor, RemoteCommand, RemoteUnit
from farm.config.deployment import Deployment, Runtime
from farm.config.inventory import Unit
from farm.jobs.fleet.dispatch import FleetOptions, Job, run_jobs_by
from farm.jobs.fleet.job_rows import KnownSettings, is_ok, unit_groups
from farm.jobs.fleet.progress import ProgressView
from farm.jobs.fleet.progress_lines import replay
from farm.rows.result import Conditions, make_row
from farm.rows.row import Failure, Identity, Row
from farm.rows.status import Status
from runtime.errors import DeviceLostError, FarmError, JobError, ProcessKilledError

RowType = TypeVar("RowType", bound=Row)
DONE_ELSEWHERE = {Status.DEVICE_LOST: DeviceLostError, Status.KILLED: ProcessKilledError}


@dataclasses.dataclass(frozen=True)
class ModelCommand(Generic[RowType]):
    """A command on models, for units of other hosts.

    Attributes:
        row_type: of its rows.
        known_settings: the settings of a row that are known before anything runs.
        name: the command, as `run`.
        options: its options, with paths in the job's folder.
        files: the files that those name: path in the job's folder -> file.
        output_folder: where files come that it writes where an option is `outputs`.
    """

    row_type: type[RowType]
    known_settings: KnownSettings
    name: str
    options: tuple[str, ...]
    files: Mapping[str, Path]
    output_folder: Path | None = None


def remote_rows(
    cluster: ClusterSession,
    command: ModelCommand[RowType],
    deployment: Deployment,
    units: Sequence[Unit],
    fleet: FleetOptions,
    progress: ProgressView,
) -> Iterator[RowType]:
    """The rows of each unit and model as soon as they are there; raises JobError where somebody cancels the job."""
    cluster.show_events(lambda event: replay(event, progress, str(event["unit"])))
    with job_scratch() as folder:
        works = [_work(command, deployment, model, Path(folder)) for model in deployment.models]
        groups = unit_groups(units, fleet.spread)
        jobs = [
            Job(group, each.run, _all_ok, each.failed, each.cost)
            for group in groups
            for each in (dataclasses.replace(work, rows={}) for work in works)
        ]
        try:
            for rows in run_jobs_by(ClusterExecutor(cluster), jobs, fleet, progress):
                yield from rows
        except JobCancelled as cancelled:
            raise JobError(f"{cancelled} ended this job (`farm jobs cancel {cluster.job.id}`)") from None


def _work(command: ModelCommand[RowType], deployment: Deployment, model: str, scratch: Path) -> _ModelWork[RowType]:
    files = files_of_model(deployment, model, command.files, scratch)
    arguments = (command.name, DEPLOYMENT, *command.options)
    remote = RemoteCommand(arguments, files, command.output_folder)
    cost = float(sum(path.stat().st_size for path in files.sources.values()))
    return _ModelWork(command, deployment, model, remote, cost, {})


def _all_ok(rows: Sequence[Row]) -> bool:
    return all(map(is_ok, rows))


@dataclasses.dataclass(frozen=True, eq=False)
class _ModelWork(Generic[RowType]):
    """A model on one unit of a group; `rows` are those that are there, by runtime, also after a unit was lost."""

    command: ModelCommand[RowType]
    deployment: Deployment
    model: str
    remote: RemoteCommand
    cost: float
    rows: dict[str, RowType]

    def run(self, opened: RemoteUnit) -> Iterator[list[RowType]]:
        """The rows of all runtimes. Raises what tells that the job may be done again."""
        document = opened.run(self.model, self.remote)
        for data in document["rows"]:
            row = self.command.row_type.model_validate({**data, "unit": opened.unit.name})
            before = self.rows.get(row.runtime)
            if before is None or before.status in DONE_ELSEWHERE:
                self.rows[row.runtime] = row
        for row in self.rows.values():
            if row.status in DONE_ELSEWHERE:
                raise DONE_ELSEWHERE[row.status](row.reason)
        yield list(self.rows.values())

    def failed(self, unit: Unit, error: FarmError) -> list[RowType]:
        """The rows that there are, and one of each runtime that there is none of."""
        settings = self.deployment.models[self.model]
        missing = [runtime for runtime in settings.runtimes if runtime not in self.rows]
        return [*self.rows.values(), *(self._failed_row(unit, runtime, error) for runtime in missing)]

    def _failed_row(self, unit: Unit, runtime: Runtime, error: FarmError) -> RowType:
        settings = self.command.known_settings(self.deployment.models[self.model], runtime)
        identity = Identity(
            unit=unit.name,
            soc=unit.soc,
            device_model=unit.model,
            library=self.deployment.library_name,
            model=self.model,
            runtime=runtime,
        )
        return make_row(self.command.row_type, identity, Conditions(settings), Failure.of(error))
