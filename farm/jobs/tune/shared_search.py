"""One search for all units of a SoC: the first unit that wants it leads, those that come meanwhile help."""

import dataclasses
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

from farm.jobs.tune.trials import UnitTrials
from runtime.errors import FarmError
from tuner.device_pool import DevicePool, PoolMember
from tuner.normalisation import NormalisedMeasure, ReferenceLaunch

Found = TypeVar("Found")

POLL_S = 0.2


@dataclasses.dataclass(eq=False)
class _RunningSearch(Generic[Found]):
    """A search that is on or has ended."""

    pool: DevicePool
    reference: ReferenceLaunch
    found: Found | None = None
    error: FarmError | None = None
    ended: bool = False


class SharedSearch(Generic[Found]):
    """Searches by key, each made once, by one unit or by several at the same time.

    Args:
        capacity: how many units may take part.
    """

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._changed = threading.Condition()
        self._searches: dict[object, _RunningSearch[Found]] = {}

    def result(
        self, key: object, unit: str, bring: Callable[[], UnitTrials], lead: Callable[[DevicePool, UnitTrials], Found]
    ) -> Found:
        """What the search for a key found. A unit that asks while it is on takes part in it.

        Args:
            key: what is searched; units with equal keys share it.
            unit: the unit's name.
            bring: brings the trial plan to the unit; not called when the search has ended already.
            lead: makes the search with a device pool; called in the thread of the unit that comes first.

        Raises:
            JobError: this unit was lost, though the search may have gone on without it.
            FarmError: the search failed.
        """
        if known := self._ended(key):
            return known
        trials = bring()
        with self._changed:
            known = self._ended(key)
            search = self._searches.get(key)
            if known:
                return known
            if search is None or search.ended:
                search = self._searches[key] = self._begun(unit, trials)
                helps = False
            else:
                helps = True
        if helps:
            self._help(search, unit, trials)
        else:
            self._lead(search, trials, lead)
        trials.end()
        return self._outcome(search, unit)

    def _ended(self, key: object) -> Found | None:
        with self._changed:
            search = self._searches.get(key)
            return search.found if search else None

    def _begun(self, unit: str, trials: UnitTrials) -> _RunningSearch[Found]:
        reference = ReferenceLaunch.of(trials.launches)
        return _RunningSearch(DevicePool([self._member(unit, trials, reference)], self._capacity), reference)

    def _member(self, unit: str, trials: UnitTrials, reference: ReferenceLaunch) -> PoolMember:
        """A unit that is alone keeps its own scale."""
        measure = NormalisedMeasure(trials, reference) if self._capacity > 1 else trials
        return PoolMember(unit, measure, trials.expect)

    def _lead(
        self, search: _RunningSearch[Found], trials: UnitTrials, lead: Callable[[DevicePool, UnitTrials], Found]
    ) -> None:
        try:
            search.found = lead(search.pool, trials)
        except FarmError as error:
            search.error = error
        finally:
            with self._changed:
                search.ended = True
                self._changed.notify_all()
            search.pool.close()

    def _help(self, search: _RunningSearch[Found], unit: str, trials: UnitTrials) -> None:
        """Lends a unit to a search until that ends, or the unit is lost."""
        search.pool.join(self._member(unit, trials, search.reference))
        with self._changed:
            while not search.ended and unit not in search.pool.lost:
                self._changed.wait(POLL_S)

    def _outcome(self, search: _RunningSearch[Found], unit: str) -> Found:
        if unit in search.pool.lost:
            raise search.pool.lost[unit]
        if search.error:
            raise search.error
        assert search.found is not None, "the search was interrupted"
        return search.found
