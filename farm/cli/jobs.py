"""`farm jobs`: what runs and waits in a cluster."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from farm.cli import FAILED, cluster_hosts, store_options
from farm.cli.envelope import CommandResult, Document
from farm.jobs.tune.received_files import ReceivedFiles
from farm.lease.lease import owner_name
from farm.tables import table
from farm.tables.table import Table
from runtime.errors import ConfigError, JobError
from tuner.budget import Deadline

if TYPE_CHECKING:
    from farm.cluster.hosts import Hosts
    from farm.cluster.queue import JobReport

POLL_S, KEPT_POLL_S = 0.3, 1.0  # of the scheduler, and of hosts
CANCEL_S = 30.0
JOB_COLUMNS = ("Job", "User", "Command", "Priority", "Since", "Running", "Waiting", "Waits for", "Detached")
TASK_COLUMNS = ("Unit", "Model", "State", "How far")


def list_jobs(cluster: str | None, certificates: Path | None, as_json: bool) -> CommandResult:
    """`farm jobs list`."""
    with _connected(cluster, certificates) as hosts:
        found = _all(hosts)
    if as_json:
        return Document(members={"jobs": [_members(report) for report in found]})
    table.show(
        [Table("", JOB_COLUMNS, [_cells(report) for report in found], frozenset(JOB_COLUMNS) - {"Running", "Waiting"})]
    )
    return 0


def show(job: str, cluster: str | None, certificates: Path | None, as_json: bool) -> CommandResult:
    """`farm jobs show`."""
    with _connected(cluster, certificates) as hosts:
        report = _named(hosts, job)
    if as_json:
        return Document(members={"job": _members(report)})
    rows = [(task.unit, task.work, task.state, task.reason or task.progress) for task in report.tasks]
    table.show([Table(_title(report), TASK_COLUMNS, rows, frozenset(TASK_COLUMNS))])
    return 0


def cancel(job: str, cluster: str | None, certificates: Path | None, as_json: bool) -> CommandResult:
    """`farm jobs cancel`; ends when the job has."""
    from farm.cluster import kept_jobs

    with _connected(cluster, certificates) as hosts:
        report = _named(hosts, job)
        kept_jobs.end(hosts, report, owner_name())
        if not _ended(hosts, report, CANCEL_S):
            raise JobError(f"{job}: was told to end, and has not within {CANCEL_S:g} s")
    return _told(report, "cancelled", as_json)


def wait(
    job: str, timeout_s: float | None, cluster: str | None, certificates: Path | None, as_json: bool
) -> CommandResult:
    """`farm jobs wait`; exit status 1 where the job has not ended in time."""
    with _connected(cluster, certificates) as hosts:
        report = _named(hosts, job)
        ended = _ended(hosts, report, timeout_s)
    return _told(report, "ended" if ended else "not ended", as_json, 0 if ended else FAILED)


def fetch(
    job: str,
    timeout_s: float | None,
    output_dir: Path | None,
    trace: Path | None,
    html: Path | None,
    store: str | None,
    cluster: str | None,
    certificates: Path | None,
    as_json: bool,
) -> CommandResult:
    """`farm jobs fetch`; the exit status is that of the job's command."""
    from farm.cli import fetched
    from farm.cluster import kept_jobs

    with _connected(cluster, certificates) as hosts:
        report = _named(hosts, job)
        kept_jobs.check_kept(report)
        if not _ended(hosts, report, timeout_s):
            return _told(report, "not ended", as_json, FAILED)
        result = kept_jobs.result_of(hosts, report)
        if output_dir:
            kept_jobs.fetch_outputs(hosts, report, result, output_dir)
        if result.left:
            kept_jobs.fetch_left(hosts, report, result, ReceivedFiles().receive)
    if result.files and not output_dir:
        store_options.tell(f"{job}: its outputs stay where they are; --output-dir DIR brings them")
    return fetched.finish(result, store, trace, html, as_json)


@contextlib.contextmanager
def _connected(cluster: str | None, certificates: Path | None) -> Iterator[Hosts]:
    if not cluster:
        raise ConfigError("which cluster? name it with --cluster tls://HOST:PORT, or set FARM_CLUSTER")
    with cluster_hosts.connected(cluster, certificates) as hosts:
        yield hosts


def _named(hosts: Hosts, job: str) -> JobReport:
    from farm.cluster.queue import named_job

    return named_job(_all(hosts), job)


def _all(hosts: Hosts) -> list[JobReport]:
    from farm.cluster import kept_jobs

    return kept_jobs.all_jobs(hosts, store_options.tell)


def _ended(hosts: Hosts, report: JobReport, timeout_s: float | None) -> bool:
    """Waits until a job has ended; False where it has not in time."""
    from farm.cluster import kept_jobs

    deadline = Deadline() if timeout_s is None else Deadline().within(timeout_s)
    while not kept_jobs.is_ended(hosts, report):
        if deadline.is_over:
            return False
        time.sleep(KEPT_POLL_S if report.kept else POLL_S)
    return True


def _told(report: JobReport, what: str, as_json: bool, status: int = 0) -> CommandResult:
    if as_json:
        return Document(status, members={"job": _members(report), "outcome": what})
    click.echo(f"{_title(report)}: {what}")
    return status


def _title(report: JobReport) -> str:
    return f"{report.name.id}: farm {report.name.command} of {report.name.user}"


def _cells(report: JobReport) -> list[str]:
    name = report.name
    since = f"{datetime.datetime.fromtimestamp(name.since).astimezone():%Y-%m-%d %H:%M:%S}"
    counts = [str(report.count(state)) for state in ("running", "waiting")]
    reasons = "; ".join(f"{unit}: {reason}" for unit, reason in report.reasons.items()) or "-"
    return [name.id, name.user, name.command, name.priority, since, *counts, reasons, _kept_text(report)]


def _kept_text(report: JobReport) -> str:
    if report.kept is None:
        return "-"
    return (
        f"on {report.kept.host}" if report.goes_on else f"ended with {report.kept.exit_status}, on {report.kept.host}"
    )


def _members(report: JobReport) -> dict[str, Any]:
    """Returns a job as JSON members; `detached` is null for a job whose client is still there."""
    kept = dataclasses.asdict(report.kept) if report.kept else None
    tasks = [dataclasses.asdict(task) for task in report.tasks]
    return {**dataclasses.asdict(report.name), "tasks": tasks, "detached": kept}
