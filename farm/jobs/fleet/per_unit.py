"""What a job keeps of each unit: made when it is first asked for, dropped when the unit is closed for good."""

from collections.abc import Callable
from typing import Generic, TypeVar
from weakref import WeakKeyDictionary

from farm.jobs.fleet.unit import OpenUnit

Kept = TypeVar("Kept")


class PerUnit(Generic[Kept]):
    """A value for each open unit, by `make`; the value must not hold the unit, which would never be dropped then.

    Each unit has one thread, so that no value is made twice. What `make` raises passes through, and the next call
    tries again.
    """

    def __init__(self, make: Callable[[OpenUnit], Kept]) -> None:
        self._make = make
        self._kept: WeakKeyDictionary[OpenUnit, Kept] = WeakKeyDictionary()

    def of(self, opened: OpenUnit) -> Kept:
        """The unit's value."""
        if opened not in self._kept:
            self._kept[opened] = self._make(opened)
        return self._kept[opened]
