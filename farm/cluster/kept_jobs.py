"""Jobs that go on without their clients, as people ask for them: which there are, how they ended, what came of them."""

import dataclasses
import json
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from farm.cluster import file_parts, host_tasks
from farm.cluster.hosts import Hosts
from farm.cluster.queue import JobReport, find_job
from runtime.errors import ConfigError, JobError


@dataclasses.dataclass(frozen=True)
class KeptResult:
    """What came of a command that a host did by itself.

    Attributes:
        command: its name, as `run`.
        run: the command as a run of the store, as plain data.
        document: what it printed with --json.
        files: names and hashes of what it wrote into its `--output-dir`.
        left: the same of what it left below build/.
        side_names: what a comparison's two sides are called in the rows.
    """

    command: str
    run: Mapping[str, Any]
    document: Mapping[str, Any]
    files: Mapping[str, str]
    left: Mapping[str, str]
    side_names: Mapping[str, Mapping[str, Any]] = dataclasses.field(default_factory=dict)


def all_jobs(hosts: Hosts, say: Callable[[str], None]) -> list[JobReport]:
    """All jobs that run, wait or are kept, the oldest first; of hosts that do not answer it is said."""
    there = {report.name.id: report for report in hosts.jobs()}
    kept_jobs, silent = hosts.kept_jobs()
    for name, kept in kept_jobs:
        there[name.id] = dataclasses.replace(there.get(name.id, JobReport(name)), kept=kept)
    for line in silent.values():
        say(line)
    return sorted(there.values(), key=lambda report: report.name.since)


def end(hosts: Hosts, report: JobReport, person: str) -> None:
    """Ends a job in a person's name, through its host where it has no client."""
    if report.kept is None:
        hosts.cancel(report.name.id, person)
    else:
        hosts.ask(report.kept.host, host_tasks.end, report.name.id, person)


def result_of(hosts: Hosts, report: JobReport) -> KeptResult:
    """What came of a job that has ended. Raises JobError where its host could not do it."""
    host = _host(report)
    answer = json.loads(hosts.ask(host, host_tasks.answer, report.name.id))
    for problem in ("error", "no_room"):
        if problem in answer:
            raise JobError(f"{report.name.id}: {host} could not do it: {answer[problem]}")
    names = [field.name for field in dataclasses.fields(KeptResult)]
    return KeptResult(**{name: answer[name] for name in names if name in answer})  # an older farm kept fewer


def fetch_outputs(hosts: Hosts, report: JobReport, result: KeptResult, folder: Path) -> None:
    """Brings what a job wrote into its `--output-dir`."""
    file_parts.fetch_files(hosts.ask, _host(report), result.files, folder)


def fetch_left(hosts: Hosts, report: JobReport, result: KeptResult, receive: Callable[[Path], None]) -> None:
    """Brings what a job left below build/, and has it taken over."""
    with tempfile.TemporaryDirectory(prefix="farm-cluster-") as folder:
        file_parts.fetch_files(hosts.ask, _host(report), result.left, Path(folder))
        receive(Path(folder))


def is_ended(hosts: Hosts, report: JobReport) -> bool:
    """Whether a job has ended by now; raises JobError where the host that does it has gone."""
    if report.kept is None:
        return find_job(hosts.jobs(), report.name.id) is None
    kept, silent = hosts.kept_jobs()
    found = next((of_job for name, of_job in kept if name.id == report.name.id), None)
    if found is None and report.kept.host in silent:  # it may be slow
        return False
    if found is None:
        raise JobError(f"{report.name.id}: {report.kept.host} has gone; it begins the job again when it is back")
    return found.exit_status is not None


def check_kept(report: JobReport) -> None:
    """Raises ConfigError for a job whose client is there."""
    _host(report)


def _host(report: JobReport) -> str:
    if report.kept is None:
        raise ConfigError(f"{report.name.id}: its command waits for its rows itself, they are not kept (--detach does)")
    return report.kept.host
