"""`farm scheduler`: Dask's scheduler, with certificates unless it serves this machine alone; turns on units."""

import asyncio
import collections
import dataclasses
import signal
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from distributed import Scheduler, SchedulerPlugin, Security

from farm.cluster import connection, queue
from farm.cluster.address import ClusterAddress
from farm.cluster.queue import parse_client, unit_of
from runtime.errors import JobError

# Of a host, within the time after which a silent one counts as dead; one that dies is noticed by its connection.
HEARTBEATS = 12


class UnitScheduler(Scheduler):
    """Dask's, for workers that mostly wait: Dask itself would have hundreds of heartbeats a second."""

    def __init__(self, **named: Any) -> None:
        super().__init__(**named)
        self.stream_handlers[queue.BEGUN] = self.note_begun

    def heartbeat_worker(self, *, address: str, **named: Any) -> dict[str, Any]:
        """What a worker is answered; a host's heartbeat counts for its units too, whose workers share its process."""
        answer: dict[str, Any] = super().heartbeat_worker(address=address, **named)
        worker = self.workers.get(address)
        if worker is None or not self.worker_ttl:
            return answer
        host = next((word.removeprefix("host:") for word in worker.resources if word.startswith("host:")), None)
        for unit in self.workers.values():
            if f"at:{host}" in unit.resources:
                unit.last_seen = worker.last_seen
        return answer | {"heartbeat-interval": self.worker_ttl / HEARTBEATS if host else self.worker_ttl}

    def worker_send(self, worker: str, msg: dict[str, Any]) -> None:
        """Sends a worker what concerns it. Dask tells each of every other one that has gone: 50,000 messages where a
        host of 50 units among 1,000 dies. Units have nothing of each other's.
        """
        if msg["op"] != "remove-worker":
            super().worker_send(worker, msg)

    def note_begun(self, *, key: str, worker: str, **_: Any) -> None:
        """A unit's worker says that it has begun a task: a heartbeat would tell it much later."""
        if (task := self.tasks.get(key)) and (unit := self.workers.get(worker)):
            unit.executing = {task: 0.0}


class OffersPlugin(SchedulerPlugin):
    """Tells clients at once that units came or went; which ones there are they ask."""

    name = queue.OFFERS

    def add_worker(self, scheduler: Scheduler, worker: str, **_: Any) -> None:
        """A unit is offered, or a host has come."""
        scheduler.log_event(queue.OFFERS, "added")

    def remove_worker(self, scheduler: Scheduler, worker: str, **_: Any) -> None:
        """A unit is not offered any more, or a host has gone."""
        scheduler.log_event(queue.OFFERS, "removed")


def run_scheduler(address: ClusterAddress, folder: Path | None, say: Callable[[str], None]) -> None:
    """Runs a scheduler until it is told to end (SIGINT or SIGTERM); says where it listens."""
    connection.use_settings()
    security = connection.security_for(address, folder)
    asyncio.run(_serve(address, security, say))


async def _serve(address: ClusterAddress, security: Security | None, say: Callable[[str], None]) -> None:
    ended = end_on_signals()
    host, protocol = address.host.strip("[]"), f"{address.protocol}://"
    scheduler = UnitScheduler(
        host=host,
        port=address.port,
        protocol=protocol,
        security=security,
        plugins=[TurnsPlugin(), OffersPlugin()],
        **connection.NO_PAGE,
    )
    try:
        await scheduler
    except OSError as error:
        raise JobError(f"{address}: cannot be listened on: {error.strerror or error}") from None
    try:
        say(scheduler.address)
        await ended.wait()
    finally:
        await scheduler.close()


def end_on_signals() -> asyncio.Event:
    """Is set as soon as the process is told to end."""
    ended = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, ended.set)
    return ended


# Whose turn it is on a unit: people take turns, however many commands each of them has waiting there.
#
# Start-time fair queueing with one turn a task (P. Goyal, H. Vin, H. Cheng, "Start-time Fair Queuing", 1996): a task
# gets its number when it comes, and the lowest number goes first. A person's next number is one more than that of the
# last, and never below the turn that the unit has reached, so that nobody saves turns up while away.
ENDED = ("memory", "erred", "forgotten", "released")
Lane = tuple[str, float]  # a unit, and Dask's priority there


@dataclasses.dataclass(frozen=True)
class Turn:
    """A task's place among those that wait for a unit."""

    lane: Lane
    user: str
    number: int


class Turns:
    """The turns of all units; pure."""

    def __init__(self) -> None:
        self._given: dict[str, Turn] = {}
        self._waiting: collections.Counter[tuple[Lane, str]] = collections.Counter()
        self._reached: dict[Lane, int] = {}
        self._next: dict[tuple[Lane, str], int] = {}

    def give(self, task: str, lane: Lane, user: str) -> int:
        """A number for a task that comes."""
        who = lane, user
        number = max(self._reached.get(lane, 0), self._next.get(who, 0)) + self._waiting[who]
        self._given[task] = Turn(lane, user, number)
        self._waiting[who] += 1
        return number

    def end(self, task: str, was_run: bool) -> None:
        """A task has gone; one that was not run has taken no turn."""
        turn = self._given.pop(task, None)
        if turn is None:
            return
        who = turn.lane, turn.user
        self._waiting[who] -= 1
        if not self._waiting[who]:
            del self._waiting[who]
        if was_run:
            self._next[who] = turn.number + 1
            self._reached[turn.lane] = max(self._reached.get(turn.lane, 0), turn.number)


class TurnsPlugin(SchedulerPlugin):
    """Has Dask's scheduler order the tasks of a unit by turns, among those of one priority."""

    name = "farm-turns"

    def __init__(self) -> None:
        self._turns = Turns()

    def update_graph(self, scheduler: Any, *, client: str, tasks: Sequence[Any], **_: Any) -> None:
        """Tasks that came: (priority, turn, order of coming) in place of Dask's (priority, order of coming, 0)."""
        job = parse_client(client)
        for key in tasks:
            unit = unit_of(str(key))
            if job and unit:
                task = scheduler.tasks[key]
                priority, came, *_ = task.priority
                task.priority = (priority, self._turns.give(str(key), (unit, priority), job.user), came)

    def transition(self, key: Any, start: str, finish: str, *_: Any, **__: Any) -> None:
        """Tasks that go."""
        if finish in ENDED:
            self._turns.end(str(key), was_run=start == "processing" and finish in ("memory", "erred"))
