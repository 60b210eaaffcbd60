"""The units that measure for one search: of one SoC, each used by one chain of trials at a time.

The search stays one program: only the thread that holds the baton runs, and it gives the baton up only while its unit
measures. So rankings, journal and budget need no locks, and with one unit the order of all trials is a plain loop's.
"""

from __future__ import annotations

import contextlib
import dataclasses
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait

from runtime.errors import JobError
from runtime.lowering.trials import TrialLaunch
from tuner.space import default_candidate
from tuner.trial import Candidate, Measure, Status, Trial

Chain = Callable[[], None]
"""Trials that build upon each other, such as those of one kernel variant."""


@dataclasses.dataclass(frozen=True, eq=False)
class Member:
    """A unit of the crew: its name, and how it measures."""

    name: str
    measure: Measure


class Stopped(Exception):
    """Another chain failed, or the user interrupts: this one ends too."""


def silent(text: str) -> None:
    """Nobody is told."""


class Crew:
    """Hands out units to chains of trials.

    Args:
        members: those who are there at the beginning. The first that is free is taken.
        capacity: how many there will be at most, with those that join later.
        say: told of each unit that is lost, with the reason.

    Attributes:
        lost: the units that went away, and why.
    """

    def __init__(
        self, members: Sequence[Member], capacity: int | None = None, say: Callable[[str], None] = silent
    ) -> None:
        self.lost: dict[str, JobError] = {}
        self._members = list(members)
        self._free = list(members)
        self._capacity = max(capacity or 0, len(self._members))
        self._say = say
        self._dismissed = False
        self._failure: BaseException | None = None
        self._bound = threading.local()
        self._baton = threading.Condition(threading.Lock())
        self._baton.acquire()

    @property
    def size(self) -> int:
        """Number of units that are still there."""
        return len(self._members)

    def join(self, member: Member) -> bool:
        """Another unit comes, or one comes back; False when the search has ended. For threads outside the search."""
        with self._baton:
            if self._dismissed:
                return False
            self.lost.pop(member.name, None)
            self._members.append(member)
            self._free.append(member)
            self._baton.notify_all()
            return True

    def dismiss(self) -> None:
        """The search has ended, and with it the crew."""
        self._dismissed = True
        self._baton.release()

    def each(self, chains: Iterable[Chain]) -> None:
        """Runs all chains to their ends, as many at a time as there are units.

        Raises what the first that failed raised; no other is begun then. One unit runs them in order.
        """
        pending = iter(list(chains))
        if self._capacity < 2:
            for chain in pending:
                chain()
            return
        with ThreadPoolExecutor(self._capacity) as pool, self._without_baton():
            workers = [pool.submit(self._work, pending) for _ in range(self._capacity)]
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
        """Makes all trials of this thread within on one unit, whose name is given; if possible not on `other_than`.

        Within another such block it changes nothing: who waited for a second unit while holding one would wait forever.
        """
        held: Member | None = getattr(self._bound, "member", None)
        if held is not None:
            yield held.name
            return
        self._bound.member = self._take(other_than)
        try:
            yield self._bound.member.name
        finally:
            self._give_back(self._bound.member)
            self._bound.member = None

    def measure(self, launch: TrialLaunch, candidate: Candidate, reps: int) -> Trial:
        """A trial on this thread's unit, or on another if that one is lost; raises its error when it was the last.

        A candidate that a unit was lost with is not tried on the next, unless it is the default: that ran before.
        """
        with self.on_one_unit():
            while True:
                member = self._present()
                try:
                    with self._without_baton():
                        trial = member.measure(launch, candidate, reps)
                except JobError as error:
                    self._lose(member, error)
                    if candidate == default_candidate(launch):
                        continue
                    trial = Trial(Status.LOST, reason=str(error))
                return dataclasses.replace(trial, unit=member.name)

    def _present(self) -> Member:
        """This thread's unit, or another in its place when it is lost."""
        if self._failure:
            raise Stopped
        if self._bound.member not in self._members:
            self._bound.member = self._take()
        member: Member = self._bound.member
        return member

    def _work(self, pending: Iterator[Chain]) -> None:
        """One thread: chain after chain."""
        with self._baton:
            for chain in pending:
                if self._failure:
                    return
                try:
                    chain()
                except Stopped:
                    return
                except BaseException as error:  # whatever ends a chain ends the search, in the caller's thread
                    self._failure = self._failure or error
                    return

    @contextlib.contextmanager
    def _without_baton(self) -> Iterator[None]:
        self._baton.release()
        try:
            yield
        finally:
            self._baton.acquire()

    def _take(self, other_than: str = "") -> Member:
        """A unit, once one is free."""
        while True:
            others = [member for member in self._members if member.name != other_than]
            if not self._members:
                raise next(reversed(self.lost.values()))
            for member in self._free:
                if not others or member in others:
                    self._free.remove(member)
                    return member
            self._baton.wait()

    def _give_back(self, member: Member) -> None:
        if member in self._members:
            self._free.append(member)
            self._free.sort(key=self._members.index)
        self._baton.notify_all()

    def _lose(self, member: Member, error: JobError) -> None:
        self.lost[member.name] = error
        self._members.remove(member)
        self._baton.notify_all()
        self._say(f"{member.name} is lost, {self.size} of its SoC left: {error}")


def crew_of_one(measure: Measure) -> Crew:
    """A unit that needs no name."""
    return Crew([Member("", measure)])
