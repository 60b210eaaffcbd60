"""Who does what next: tasks, each for one unit or for whichever of several is free. Pure: no clock, no thread.

The longest task goes first, after those that fewer units can do: with tasks that any unit can do this is Graham's LPT
rule, whose last task ends at most a third later than in the best schedule (R. L. Graham, "Bounds on multiprocessing
timing anomalies", 1969).
"""

import dataclasses
import heapq
from collections.abc import Collection, Iterable, Iterator
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


@dataclasses.dataclass(eq=False)
class _Group(Generic[Work]):
    """Tasks that the same units can do; `left` is how many of these are not gone."""

    left: int
    waiting: list[tuple[float, int, UnitTask[Work]]] = dataclasses.field(default_factory=list)  # a heap: -cost, order
    running: int = 0

    @property
    def next(self) -> tuple[int, float, int]:
        """Returns the sort key of the group's next task; among all groups the least key goes first."""
        cost, order, _ = self.waiting[0]
        return self.left, cost, order


class Schedule(Generic[Work]):
    """Tasks that wait and that run. A task that runs may come back, for its unit or for another.

    What it is asked takes no longer with more tasks, only with more sets of units that tasks are for.
    """

    def __init__(self, tasks: Iterable[UnitTask[Work]]) -> None:
        self._gone: set[str] = set()
        self._group: dict[UnitTask[Work], _Group[Work]] = {}
        self._groups: dict[str, list[_Group[Work]]] = {}  # of each unit
        self._running: set[UnitTask[Work]] = set()
        self._put_back = 0
        by_units: dict[frozenset[str], _Group[Work]] = {}
        for order, task in enumerate(tasks):
            units = frozenset(task.units)
            if units not in by_units:
                by_units[units] = _Group(len(units))
                for unit in units:
                    self._groups.setdefault(unit, []).append(by_units[units])
            self._group[task] = by_units[units]
            heapq.heappush(by_units[units].waiting, (-task.cost, order, task))

    def take(self, unit: str) -> UnitTask[Work] | None:
        """The next task for a unit; it runs now."""
        group = min(self._with_waiting(unit), key=lambda group: group.next, default=None)
        if group is None:
            return None
        *_, task = heapq.heappop(group.waiting)
        group.running += 1
        self._running.add(task)
        return task

    def done(self, task: UnitTask[Work]) -> None:
        """A task that ran has ended."""
        self._running.remove(task)
        self._group[task].running -= 1

    def put_back(self, task: UnitTask[Work]) -> None:
        """A task that ran has to be run again: before all others like it."""
        self.done(task)
        self._put_back += 1
        heapq.heappush(self._group[task].waiting, (-task.cost, -self._put_back, task))

    def drop(self, unit: str) -> list[UnitTask[Work]]:
        """Takes a unit out for good; returns the waiting tasks that nobody is left for."""
        if unit in self._gone:
            return []
        self._gone.add(unit)
        for group in self._groups.get(unit, ()):
            group.left -= 1
        return _emptied(group for group in self._groups.get(unit, ()) if not group.left)

    def stop(self) -> list[UnitTask[Work]]:
        """Begins no other task; returns those that will not be run."""
        return _emptied(dict.fromkeys(self._group.values()))

    def has(self, unit: str) -> bool:
        """Returns whether a task that the unit can do is waiting."""
        return unit not in self._gone and any(self._with_waiting(unit))

    def may_have(self, unit: str) -> bool:
        """Whether there is something for a unit to do, now or when a running task comes back."""
        return unit not in self._gone and any(group.waiting or group.running for group in self._groups.get(unit, ()))

    def _with_waiting(self, unit: str) -> Iterator[_Group[Work]]:
        return (group for group in self._groups.get(unit, ()) if group.waiting)


def _emptied(groups: Iterable[_Group[Work]]) -> list[UnitTask[Work]]:
    """Takes all that waits, in the order in which it came."""
    taken = []
    for group in groups:
        taken += group.waiting
        group.waiting = []
    return [task for _, _, task in sorted(taken, key=lambda waiting: waiting[1])]
