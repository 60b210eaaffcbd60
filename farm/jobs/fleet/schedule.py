"""Who does what next: tasks, each for one unit or for whichever of several is free. Pure: no clock, no thread.

The longest task goes first, after those that fewer units can do: with tasks that any unit can do this is Graham's LPT
rule, whose last task ends at most a third later than in the best schedule (R. L. Graham, "Bounds on multiprocessing
timing anomalies", 1969).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable
from typing import Generic, TypeVar

Work = TypeVar("Work")


@dataclasses.dataclass(frozen=True, eq=False)
class UnitTask(Generic[Work]):
    """Something to do once, by one of some units.

    Attributes:
        units: names of those that can do it.
        cost: how long it takes, in any measure that all tasks share.
    """

    work: Work
    units: Collection[str]
    cost: float = 1.0


class Schedule(Generic[Work]):
    """Tasks that wait and that run. A task that runs may come back, for its unit or for another."""

    def __init__(self, tasks: Iterable[UnitTask[Work]]) -> None:
        self._gone: set[str] = set()
        self._waiting = list(tasks)
        self._running: list[UnitTask[Work]] = []

    def take(self, unit: str) -> UnitTask[Work] | None:
        """The next task for a unit; it runs now."""
        suitable = [task for task in self._waiting if unit in task.units]
        if not suitable:
            return None
        task = min(suitable, key=lambda task: (len(self._left(task)), -task.cost))
        self._waiting.remove(task)
        self._running.append(task)
        return task

    def done(self, task: UnitTask[Work]) -> None:
        """A task that ran has ended."""
        self._running.remove(task)

    def put_back(self, task: UnitTask[Work]) -> None:
        """A task that ran has to be run again: before all others like it."""
        self._running.remove(task)
        self._waiting.insert(0, task)

    def drop(self, unit: str) -> list[UnitTask[Work]]:
        """Takes a unit out for good; returns the waiting tasks that nobody is left for."""
        self._gone.add(unit)
        orphans = [task for task in self._waiting if not self._left(task)]
        self._waiting = [task for task in self._waiting if self._left(task)]
        return orphans

    def stop(self) -> list[UnitTask[Work]]:
        """Begins no other task; returns those that will not be run."""
        left, self._waiting = self._waiting, []
        return left

    def has(self, unit: str) -> bool:
        """Whether a task waits that a unit can do."""
        return unit not in self._gone and any(unit in task.units for task in self._waiting)

    def may_have(self, unit: str) -> bool:
        """Whether there is something for a unit to do, now or when a running task comes back."""
        return unit not in self._gone and any(unit in task.units for task in (*self._waiting, *self._running))

    def _left(self, task: UnitTask[Work]) -> list[str]:
        return [unit for unit in task.units if unit not in self._gone]
