"""The queue: what a client's name tells, and how the scheduler's tasks become jobs."""

from __future__ import annotations

import dataclasses
import uuid
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from farm.cli.commands import options
from farm.cluster import queue
from farm.cluster.queue import JobName, jobs_on_scheduler, named_job, new_job, parse_client, parse_jobs, task_key
from runtime.errors import ConfigError

OLD, NEW = (JobName(name, "bob@lab", "run", "nightly", since) for name, since in (("aaa111", 5.0), ("bbb222", 9.0)))


def client_of(job: JobName, *tasks: Any) -> Any:
    return SimpleNamespace(client_key=f"Client-{job.text}-{uuid.uuid1()}", wants_what=set(tasks))


def scheduler(*clients: Any, said: Sequence[tuple[float, Any]] = ()) -> Any:
    """A scheduler with clients, the newer job of which has said something."""
    topics = {NEW.id: tuple(said)}
    return SimpleNamespace(clients=dict(enumerate(clients)), get_events=lambda topic: topics.get(topic, ()))


class Task(SimpleNamespace):
    __hash__ = object.__hash__


def task(job: JobName, unit: str, state: str, running: bool = False) -> Task:
    made = Task(key=task_key(job.id, unit, "tiny"), state=state, processing_on=None)
    made.processing_on = SimpleNamespace(executing={made: 0.0} if running else {})
    return made


def test_a_clients_name_tells_its_job() -> None:
    job = new_job("run", "interactive")
    assert parse_client(f"Client-{job.text}-{uuid.uuid1()}") == job
    odd = dataclasses.replace(job, user="jörg müller-x@lab.example")
    assert parse_client(f"Client-{odd.text}-{uuid.uuid1()}") == odd


@pytest.mark.parametrize("key", ["Client-worker-1234", f"Client-{uuid.UUID(int=1)}", "Client-farm.!!-" + "0" * 36])
def test_other_clients_are_no_jobs(key: str) -> None:
    assert parse_client(key) is None


def test_jobs_and_what_they_do_now() -> None:
    tasks = [
        task(NEW, "mi8", "processing", running=True),
        task(NEW, "mi9", "processing"),
        task(NEW, "pi", "no-worker"),
        task(NEW, "p40", "memory"),
        task(NEW, "", "processing", running=True),
    ]
    said = [
        (1.0, {"event": "stage", "unit": "mi8", "value": "tiny: loading"}),
        (2.0, {"event": "stage", "unit": "mi9", "value": "of the job before"}),
        (3.0, {"event": "stage", "unit": "mi8", "value": "tiny: round 3"}),
        (4.0, {"event": "cancel", "by": "bob"}),
    ]
    clients = client_of(NEW, *tasks), client_of(OLD), SimpleNamespace(client_key="Client-x")
    reports = parse_jobs(jobs_on_scheduler(scheduler(*clients, said=said)))
    assert [report.name for report in reports] == [OLD, NEW]
    assert [(each.unit, each.work, each.state, each.progress) for each in reports[1].tasks] == [
        ("mi8", "tiny", "running", "tiny: round 3"),
        ("mi9", "tiny", "waiting", ""),
        ("pi", "tiny", "waiting", ""),
    ]
    assert (reports[1].count("running"), reports[1].count("waiting")) == (1, 2)


def test_a_job_and_those_behind_it_say_who_has_the_unit_and_until_when() -> None:
    first, behind, other = (
        task(NEW, "mi8", "processing", running=True),
        task(OLD, "mi8", "processing"),
        task(OLD, "pi", "queued"),
    )
    behind.processing_on = first.processing_on
    told = (1.0, {"event": "waiting", "unit": "mi8", "value": "waiting, reserved by bob until 12:00: flashing"})
    begun = (2.0, {"event": "stage", "unit": "mi8", "value": "connecting"})
    clients = client_of(NEW, first), client_of(OLD, behind, other)
    waiting = parse_jobs(jobs_on_scheduler(scheduler(*clients, said=[told])))
    assert [(report.count("running"), report.count("waiting")) for report in waiting] == [(0, 2), (0, 1)]
    assert [report.reasons for report in waiting] == [{"mi8": told[1]["value"]}] * 2
    running = parse_jobs(jobs_on_scheduler(scheduler(*clients, said=[told, begun])))
    assert running[1].tasks[0].state == "running" and [report.reasons for report in running] == [{}, {}]


def test_a_job_is_found_or_the_others_are_named() -> None:
    reports = parse_jobs(jobs_on_scheduler(scheduler(client_of(OLD), client_of(NEW))))
    assert named_job(reports, "bbb222").name == NEW
    with pytest.raises(ConfigError, match="ccc333: no such job runs, waits or is kept; there are: aaa111, bbb222"):
        named_job(reports, "ccc333")


def test_the_command_line_offers_the_queues_priorities() -> None:
    assert tuple(queue.PRIORITIES) == options.PRIORITIES and options.PRIORITIES[0] == "interactive"
    assert queue.PRIORITIES["interactive"] > queue.PRIORITIES["nightly"]
