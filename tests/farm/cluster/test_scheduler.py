"""What Dask's scheduler does differently for units: heartbeats of hosts, turns, queues, and which tasks have begun."""

import asyncio
import dataclasses
import itertools
import uuid
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from distributed import Worker

from farm.cli.commands import options
from farm.cluster import connection, queue
from farm.cluster.queue import JobName, jobs_on_scheduler, named_job, new_job, parse_client, parse_jobs, task_key
from farm.cluster.scheduler import HEARTBEATS, Turns, UnitScheduler
from runtime.errors import ConfigError

METRICS = {
    "bandwidth": {"total": 1.0, "workers": {}, "types": {}},
    "digests_total_since_heartbeat": {},
    "memory": 0,
    "spilled_bytes": {"memory": 0, "disk": 0},
}
OFFERED = {"host alpha": ["host:alpha"], "mi8": ["unit:mi8", "at:alpha"], "p40": ["unit:p40", "at:beta"]}


async def with_workers(act: Any) -> None:
    """Acts on a scheduler with a worker for each of OFFERED, given by name, none of which was heard of for long."""
    connection.use_settings()
    place: dict[str, Any] = {"host": "127.0.0.1", **connection.NO_PAGE}
    async with UnitScheduler(port=0, **place) as scheduler:
        workers = [
            Worker(scheduler.address, name=name, resources=dict.fromkeys(words, 1), memory_limit=0, **place)
            for name, words in OFFERED.items()
        ]
        await asyncio.gather(*workers)
        states = {state.name: state for state in scheduler.workers.values()}
        for state in states.values():
            state.last_seen = 0.0
        act(scheduler, states)
        await asyncio.gather(*(worker.close() for worker in workers))


def test_a_hosts_heartbeat_is_that_of_its_units() -> None:
    def act(scheduler: UnitScheduler, states: dict[str, Any]) -> None:
        answer = scheduler.heartbeat_worker(address=states["host alpha"].address, metrics=METRICS)
        assert answer["heartbeat-interval"] * HEARTBEATS == scheduler.worker_ttl
        assert states["mi8"].last_seen == states["host alpha"].last_seen > 0
        assert states["p40"].last_seen == 0

    asyncio.run(with_workers(act))


def test_a_unit_need_not_say_that_it_is_there() -> None:
    def act(scheduler: UnitScheduler, states: dict[str, Any]) -> None:
        answer = scheduler.heartbeat_worker(address=states["mi8"].address, metrics=METRICS)
        assert answer["heartbeat-interval"] == scheduler.worker_ttl
        assert states["mi8"].last_seen > 0 == states["host alpha"].last_seen

    asyncio.run(with_workers(act))


def test_a_worker_that_the_scheduler_does_not_know_is_told_so() -> None:
    def act(scheduler: UnitScheduler, states: dict[str, Any]) -> None:
        assert scheduler.heartbeat_worker(address="tcp://127.0.0.1:1", metrics=METRICS)["status"] == "missing"

    asyncio.run(with_workers(act))


def test_a_task_that_a_unit_has_begun_runs_from_then_on() -> None:
    def act(scheduler: UnitScheduler, states: dict[str, Any]) -> None:
        key, address = queue.task_key("aaa111", "mi8", "tiny"), states["mi8"].address
        begun = scheduler.stream_handlers[queue.BEGUN]
        begun(key=key, worker=address)  # of a client that has gone meanwhile
        assert states["mi8"].executing == {}
        task = scheduler.new_task(key, None, "released")
        begun(key=key, worker=address)
        assert list(states["mi8"].executing) == [task]

    asyncio.run(with_workers(act))


def test_units_are_not_told_which_others_have_gone() -> None:
    def act(scheduler: UnitScheduler, states: dict[str, Any]) -> None:
        address, told = states["mi8"].address, list[Any]()
        scheduler.stream_comms[address].send = told.append
        for op in ("remove-worker", "free-keys"):
            scheduler.worker_send(address, {"op": op})
        assert told == [{"op": "free-keys"}]

    asyncio.run(with_workers(act))


LANE = ("mi8", -10.0)


class Unit:
    """A unit that does what waits for it, the lowest number first, and of one number what came first."""

    def __init__(self) -> None:
        self.turns, self.waiting, self._counter = Turns(), list[tuple[int, int, str, str]](), itertools.count()

    def come(self, *commands: str) -> None:
        """Commands come, each named by its user and a number: `ann1`."""
        for command in commands:
            user, came = command.rstrip("0123456789"), next(self._counter)
            task = f"{command}/{came}"
            self.waiting.append((self.turns.give(task, LANE, user), came, task, command))

    def do(self, count: int, each_again: bool = True) -> list[str]:
        """The commands that have their turns; each comes again, with its next model."""
        done = []
        for _ in range(count):
            self.waiting.sort()
            _, _, task, command = self.waiting.pop(0)
            self.turns.end(task, was_run=True)
            done.append(command)
            if each_again:
                self.come(command)
        return done

    def cancel(self, *commands: str) -> None:
        """Commands go without having been run."""
        for _, _, task, command in self.waiting:
            if command in commands:
                self.turns.end(task, was_run=False)
        self.waiting = [each for each in self.waiting if each[3] not in commands]


def users(commands: list[str]) -> str:
    return "".join(command[0] for command in commands)


def test_a_person_with_many_commands_has_no_more_turns() -> None:
    unit = Unit()
    unit.come("ann1", "ann2", "ann3")
    unit.do(4)
    unit.come("bob1")
    done = unit.do(12)
    assert users(done).count("b") in (5, 6, 7) and users(done[:2]).count("b") == 1
    assert {each for each in done if each.startswith("a")} == {"ann1", "ann2", "ann3"}


def test_three_people_have_a_third_each() -> None:
    unit = Unit()
    unit.come("ann1", "ann2", "ann3", "ann4", "bob1", "carol1", "carol2")
    done = users(unit.do(30))
    assert {name: done.count(name) for name in "abc"} == {"a": 10, "b": 10, "c": 10}


def test_who_was_away_has_saved_no_turns() -> None:
    unit = Unit()
    unit.come("ann1")
    unit.do(50)
    unit.come("bob1")
    assert users(unit.do(10)).count("b") in (5, 6)


def test_what_is_cancelled_has_taken_no_turn() -> None:
    unit = Unit()
    unit.come("bob1", *(f"ann{number}" for number in range(20)))
    unit.cancel(*(f"ann{number}" for number in range(20)))
    unit.come("ann20")
    assert users(unit.do(6)).count("a") == 3


def test_turns_of_other_units_and_priorities_are_apart() -> None:
    turns = Turns()
    assert [turns.give(str(number), LANE, "ann") for number in range(3)] == [0, 1, 2]
    assert turns.give("other unit", ("mi9", -10.0), "ann") == 0
    assert turns.give("other priority", ("mi8", 0.0), "ann") == 0
    turns.end("unknown", was_run=True)


def test_who_leaves_is_forgotten() -> None:
    unit = Unit()
    unit.come("ann1", "bob1")
    unit.do(2, each_again=False)
    assert not unit.turns._given and not unit.turns._waiting


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
