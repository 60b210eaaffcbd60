"""A pool of units of one SoC that measure for one search; each unit runs one chain of trials at a time.

One lock serialises the search: a thread runs only while it holds the lock, and releases it only while its unit
measures. So rankings, journal and budget need no locks of their own, and with one unit all trials run in the order of a
plain loop.
"""

import contextlib
import dataclasses
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait

from runtime.errors import JobError
from runtime.lowering.trials import TrialLaunch
from tuner.build_ahead import TrialProgram
from tuner.space import default_candidate
from tuner.trial import Candidate, Measure, Trial, TrialStatus

Chain = Callable[[], None]
"""Runs trials that build upon each other, such as those of one kernel variant; runs on one unit."""


Expect = Callable[[TrialProgram], None]
"""Tells a unit the program to build while it measures the next candidate."""


@dataclasses.dataclass(frozen=True, eq=False)
class PoolMember:
    """A unit of the pool: its name, the function that measures on it, and `expect` where it can build meanwhile."""

    name: str
    measure: Measure
    expect: Expect | None = None


class SearchStopped(Exception):
    """Ends a chain because another chain failed or the user interrupted the search."""


def discard_message(text: str) -> None:
    """Ignores a message; the default for callers that show none."""


class DevicePool:
    """Assigns units to chains of trials.

    Args:
        members: the units at the beginning. A chain gets the first free one in this order.
        capacity: the largest number of units, those that join later included.
        report: receives a line for each unit that is lost, with the reason.

    Attributes:
        lost: the error of each unit that was lost, by the unit's name.
    """

    def __init__(
        self,
        members: Sequence[PoolMember],
        capacity: int | None = None,
        report: Callable[[str], None] = discard_message,
    ) -> None:
        self.lost: dict[str, JobError] = {}
        self._members = list(members)
        self._free = list(members)
        self._capacity = max(capacity or 0, len(self._members))
        self._report = report
        self._closed = False
        self._failure: BaseException | None = None
        self._held = threading.local()
        self._lock = threading.Condition(threading.Lock())
        self._lock.acquire()

    @property
    def size(self) -> int:
        """Number of units that are still there."""
        return len(self._members)

    def join(self, member: PoolMember) -> bool:
        """Adds a unit, or one that was lost before; False when the search has ended. For threads outside the search."""
        with self._lock:
            if self._closed:
                return False
            self.lost.pop(member.name, None)
            self._members.append(member)
            self._free.append(member)
            self._lock.notify_all()
            return True

    def close(self) -> None:
        """Closes the pool at the end of the search: no unit can join any more."""
        self._closed = True
        self._lock.release()

    def run_chains(self, chains: Iterable[Chain]) -> None:
        """Runs all chains to their ends, as many at a time as there are units; one unit runs them in order.

        Raises the error of the first chain that failed; after it no further chain begins.
        """
        pending = iter(list(chains))
        if self._capacity < 2:
            for chain in pending:
                chain()
            return
        with ThreadPoolExecutor(self._capacity) as pool, self._lock_released():
            workers = [pool.submit(self._run_pending, pending) for _ in range(self._capacity)]
            try:
                wait(workers)
            except BaseException as error:
                self._failure = error
                raise
        if self._failure:
            failure, self._failure = self._failure, None
            raise failure

    @contextlib.contextmanager
    def on_one_unit(self, other_than: str = "") -> Iterator[str]:
        """Binds this thread to one unit for the block and yields its name; avoids the unit `other_than` if it can.

        A nested block keeps the outer block's unit: a thread that waited for a second unit while it holds one could
        wait forever.
        """
        held: PoolMember | None = getattr(self._held, "member", None)
        if held is not None:
            yield held.name
            return
        self._held.member = self._acquire(other_than)
        try:
            yield self._held.member.name
        finally:
            self._release(self._held.member)
            self._held.member = None

    def measure(
        self, launch: TrialLaunch, candidate: Candidate, reps: int, expected: TrialProgram | None = None
    ) -> Trial:
        """Times a candidate on this thread's unit, or on another one if that unit is lost.

        `expected` is a program that the unit may build meanwhile.
        A candidate that lost a unit is not tried on the next unit, unless it is the default, which ran before. Raises
        the JobError of the last unit when that is lost too.
        """
        with self.on_one_unit():
            while True:
                member = self._working_member()
                try:
                    if expected and member.expect:
                        member.expect(expected)
                    with self._lock_released():
                        trial = member.measure(launch, candidate, reps)
                except JobError as error:
                    self._remove_lost(member, error)
                    if candidate == default_candidate(launch):
                        continue
                    trial = Trial(TrialStatus.LOST, reason=str(error))
                return dataclasses.replace(trial, unit=member.name)

    def _working_member(self) -> PoolMember:
        """This thread's unit; another free one in its place when it was lost."""
        if self._failure:
            raise SearchStopped
        if self._held.member not in self._members:
            self._held.member = self._acquire()
        member: PoolMember = self._held.member
        return member

    def _run_pending(self, pending: Iterator[Chain]) -> None:
        """Runs chain after chain in one worker thread."""
        with self._lock:
            for chain in pending:
                if self._failure:
                    return
                try:
                    chain()
                except SearchStopped:
                    return
                except BaseException as error:  # whatever ends a chain ends the search, in the caller's thread
                    self._failure = self._failure or error
                    return

    @contextlib.contextmanager
    def _lock_released(self) -> Iterator[None]:
        self._lock.release()
        try:
            yield
        finally:
            self._lock.acquire()

    def _acquire(self, other_than: str = "") -> PoolMember:
        """Waits until a unit is free and takes it."""
        while True:
            others = [member for member in self._members if member.name != other_than]
            if not self._members:
                raise next(reversed(self.lost.values()))
            for member in self._free:
                if not others or member in others:
                    self._free.remove(member)
                    return member
            self._lock.wait()

    def _release(self, member: PoolMember) -> None:
        if member in self._members:
            self._free.append(member)
            self._free.sort(key=self._members.index)
        self._lock.notify_all()

    def _remove_lost(self, member: PoolMember, error: JobError) -> None:
        self.lost[member.name] = error
        self._members.remove(member)
        self._lock.notify_all()
        self._report(f"{member.name} is lost, {self.size} of its SoC left: {error}")


def pool_of_one(measure: Measure) -> DevicePool:
    """A pool with a single unit, which needs no name."""
    return DevicePool([PoolMember("", measure)])
