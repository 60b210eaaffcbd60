"""Whose turn it is on a unit: people take turns, however many commands each of them has waiting there.

Start-time fair queueing with one turn a task (P. Goyal, H. Vin, H. Cheng, "Start-time Fair Queuing", 1996): a task gets
its number when it comes, and the lowest number goes first. A person's next number is one more than that of the last,
and never below the turn that the unit has reached, so that nobody saves turns up while away.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Sequence
from typing import Any

from distributed import SchedulerPlugin

from farm.cluster.queue import parse_client, unit_of

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
