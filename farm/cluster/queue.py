"""The jobs of a cluster: who runs what, and how far it is; read from the scheduler, which knows every client.

A job is a command with `--cluster` that runs somewhere. Its client's name tells whose it is; it has one task at a time
for each unit that it may use, and leaves the queue with its client. Tasks of a higher priority go first on a unit;
among those of one priority people take turns (farm/cluster/scheduler.py), and a person's jobs too, since no job has two
tasks waiting for a unit.
"""

import base64
import dataclasses
import json
import os
import secrets
import time
from collections.abc import Iterable, Mapping
from typing import Any

from farm.jobs.fleet.progress import SEARCH, STAGE, WAITING, progress_text
from runtime.errors import ConfigError

PRIORITIES = {"interactive": 10, "nightly": 0}  # what waits first is done first, among those of one number
BEFORE_JOBS = max(PRIORITIES.values()) + 1
RUNNING = "running"
PREFIX = "farm."
CANCEL = "cancel"
TOLD = (STAGE, SEARCH, WAITING)
BEGUN = "farm-begun"  # what a unit's worker tells the scheduler of a task
OFFERS = "farm-offers"  # the topic in which the scheduler tells clients that units came or went
UUID_CHARACTERS = 36
OWN_JOB = "FARM_JOB"  # the variable that tells a process whose job it is: a client's name


@dataclasses.dataclass(frozen=True)
class JobName:
    """What a client's name tells: whose job it is, its command and when it began (Unix time)."""

    id: str
    user: str
    command: str
    priority: str
    since: float

    @property
    def text(self) -> str:
        """As a client's name."""
        data = json.dumps(dataclasses.asdict(self)).encode()
        return PREFIX + base64.urlsafe_b64encode(data).decode().rstrip("=")


@dataclasses.dataclass(frozen=True)
class TaskReport:
    """A job's task: the model (or what it does), the unit, whether it runs or waits, and what it said last.

    `reason`: why it waits, where its unit is somebody's outside of the queue: who has it, and until when.
    """

    unit: str
    work: str
    state: str
    progress: str = ""
    reason: str = ""


@dataclasses.dataclass(frozen=True)
class KeptJob:
    """A job that goes on without the client that sent it: its host, and the exit status as soon as it has ended."""

    host: str
    exit_status: int | None = None


@dataclasses.dataclass(frozen=True)
class JobReport:
    """A job and its tasks of this moment; `kept` by its host where it goes on without the client that sent it."""

    name: JobName
    tasks: tuple[TaskReport, ...] = ()
    kept: KeptJob | None = None

    @property
    def goes_on(self) -> bool:
        """Whether it has not ended."""
        return self.kept is None or self.kept.exit_status is None

    @property
    def reasons(self) -> dict[str, str]:
        """Units that somebody outside of the queue has -> who, and until when."""
        return {task.unit: task.reason for task in self.tasks if task.reason}

    def count(self, state: str) -> int:
        """How many tasks are in a state."""
        return sum(task.state == state for task in self.tasks)


def new_job(command: str, priority: str) -> JobName:
    """The job that this process was begun for, else a new one of its user."""
    if given := parse_name(os.environ.get(OWN_JOB, "")):
        return given
    from farm.lease.lease import owner_name  # with all of a unit, of which a scheduler has none

    return JobName(secrets.token_hex(3), owner_name(), command, priority, time.time())


def task_key(job: str, unit: str, work: str) -> str:
    """A task's name for Dask; unlike any other, so that no result is taken for another's."""
    return f"{job}/{unit}/{work}/{secrets.token_hex(4)}"


def unit_of(key: str) -> str:
    """The unit that a task is for; empty for one that is for a host, or that is not ours."""
    return key.split("/", 2)[1] if key.count("/") >= 3 else ""


def jobs_on_scheduler(dask_scheduler: Any) -> list[dict[str, Any]]:
    """All jobs as plain data; is run on the scheduler."""
    jobs = []
    said = _LastEvents(dask_scheduler)
    for client in dask_scheduler.clients.values():
        name = parse_client(client.client_key)
        if name:
            tasks = [_task_data(task, said) for task in client.wants_what if "/" in str(task.key)]
            jobs.append({"name": dataclasses.asdict(name), "tasks": [task for task in tasks if task]})
    return jobs


def offers_on_scheduler(dask_scheduler: Any) -> dict[str, Any]:
    """The hosts of the cluster, and the host of each unit, as plain data; is run on the scheduler."""
    hosts, units = [], {}
    for worker in dask_scheduler.workers.values():
        words = dict(word.split(":", 1) for word in worker.resources)
        if "host" in words:
            hosts.append(words["host"])
        elif "unit" in words:
            units[words["unit"]] = words["at"]
    return {"hosts": hosts, "units": units}


def parse_jobs(jobs: Iterable[dict[str, Any]]) -> list[JobReport]:
    """Jobs of plain data, the oldest first."""
    reports = [
        JobReport(JobName(**job["name"]), tuple(TaskReport(**task) for task in sorted(job["tasks"], key=_by_unit)))
        for job in jobs
    ]
    return sorted(reports, key=lambda report: report.name.since)


def find_job(reports: Iterable[JobReport], job: str) -> JobReport | None:
    """The job with an id, or None where it has ended."""
    return next((report for report in reports if report.name.id == job), None)


def named_job(reports: Iterable[JobReport], job: str) -> JobReport:
    """The job with an id; raises ConfigError where there is none."""
    known = list(reports)
    found = find_job(known, job)
    if found is None:
        there = ", ".join(report.name.id for report in known) or "none"
        raise ConfigError(f"{job}: no such job runs, waits or is kept; there are: {there}")
    return found


def parse_client(key: str) -> JobName | None:
    """The job of a client, by its name; None for a client that is no job."""
    start = key.find(PREFIX)
    if start < 0:
        return None
    return parse_name(key[start : -UUID_CHARACTERS - 1])


def parse_name(text: str) -> JobName | None:
    """The job of a client's name without what Dask adds; None for a client that is no job."""
    if not text.startswith(PREFIX):
        return None
    coded = text[len(PREFIX) :]
    try:
        return JobName(**json.loads(base64.urlsafe_b64decode(coded + "=" * (-len(coded) % 4))))
    except (ValueError, TypeError):
        return None


class _LastEvents:
    """What each job said last of each unit, read from its topic when it is asked for."""

    def __init__(self, dask_scheduler: Any) -> None:
        self._scheduler = dask_scheduler
        self._of_jobs: dict[str, dict[str, Mapping[str, Any]]] = {}

    def of(self, job: str, unit: str) -> Mapping[str, Any] | None:
        """The last event of a job's work on a unit."""
        if job not in self._of_jobs:
            events = (event for _, event in self._scheduler.get_events(job) if isinstance(event, dict))
            told = (event for event in events if event.get("event") in TOLD)
            self._of_jobs[job] = {str(event.get("unit", "")): event for event in told}
        return self._of_jobs[job].get(unit)


def _task_data(task: Any, said: _LastEvents) -> dict[str, str] | None:
    """A task that waits or runs; None for one that is done."""
    _, unit, work, _ = str(task.key).split("/", 3)
    if not unit or task.state not in ("waiting", "no-worker", "queued", "processing"):
        return None
    begun = _begun(task)
    last = said.of(_job_of(begun), unit) if begun else None
    text, awaits = (progress_text(last), last["event"] == WAITING) if last else ("", False)
    runs = begun is task and not awaits
    return {
        "unit": unit,
        "work": work,
        "state": RUNNING if runs else "waiting",
        "progress": text if runs else "",
        "reason": text if awaits else "",
    }


def _begun(task: Any) -> Any | None:
    """What its unit has begun: the task itself, or another that it waits for."""
    executing = task.processing_on.executing if task.state == "processing" and task.processing_on else {}
    return task if task in executing else next(iter(executing), None)


def _job_of(task: Any) -> str:
    return str(task.key).partition("/")[0]


def _by_unit(task: dict[str, str]) -> tuple[str, str]:
    return task["unit"], task["work"]
