"""A model of the protocol of workers.c: its atomic operations as steps, of which every order is tried.

A state is all shared words and where each thread is. Memory is sequentially consistent here; ThreadSanitizer looks at
the memory orders (test_workers.py). Names are those of workers.c.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

SLEEPER, ONE = 1, 2
OWNER = 0


class FaultError(Exception):
    """What must not happen, and the steps that led there."""


class Thread(NamedTuple):
    """A thread: its next step, and what it remembers."""

    at: str
    seen: int = 0  # the last announcement that it knows of
    walked: int = 0  # ranges that it has found empty in this walk
    left: int = 0  # what it read in the range
    loop: int = 0  # whose data it works with
    turn: int = -1  # that it has in hand; none below 0
    finished: int = 0  # turns that it has not told of
    word: int = 0  # what it read of a futex


class State(NamedTuple):
    """All that threads share, and the threads; the first is the owner."""

    threads: tuple[Thread, ...]
    left: tuple[int, ...]
    loop: int = 0  # whose turns, ends and context stand in the pool
    unfinished: int = 0
    announced: int = 0
    is_stopping: bool = False
    started: frozenset[int] = frozenset()  # turns of the loop
    ended: frozenset[int] = frozenset()

    def move(self, index: int, at: str, **changes: int) -> State:
        """The state after a thread has gone to its next step."""
        threads = list(self.threads)
        threads[index] = threads[index]._replace(at=at, **changes)
        return self._replace(threads=tuple(threads))

    def wake(self, asleep: str, awake: str) -> State:
        """The state after all who sleep at a step are awake."""
        return self._replace(threads=tuple(t._replace(at=awake) if t.at == asleep else t for t in self.threads))


class Protocol:
    """The steps of workers.c, one atomic operation each.

    Args:
        workers: threads, the owner included.
        sizes: turns of the loops that the owner runs, one after the other.
        may_freeze: a thread other than the owner may stop for ever where it has no turn in hand.
    """

    def __init__(self, workers: int, sizes: tuple[int, ...], may_freeze: bool = False) -> None:
        self.workers, self.sizes, self.may_freeze = workers, sizes, may_freeze

    def begin(self) -> State:
        """The state in which all threads are there."""
        return State((Thread("write"), *[Thread("watch")] * (self.workers - 1)), left=(0,) * self.workers)

    def next_states(self, state: State) -> Iterator[tuple[str, State]]:
        """All states that one step of one thread leads to, each with the step's name."""
        for index, thread in enumerate(state.threads):
            if (step := getattr(self, f"{thread.at}_step", None)) is not None:
                yield f"{index}: {thread.at}", step(state, index, thread)
            if (
                self.may_freeze
                and index != OWNER
                and thread.at in ("watch", "doze", "hear", "leave", "take")
                and not thread.finished
            ):
                yield f"{index}: freezes", state.move(index, "frozen")

    def check_end(self, state: State) -> None:
        """Of a state that no step leads out of."""
        owner, *others = state.threads
        allowed = {"gone", "frozen"} if self.may_freeze else {"gone"}
        if owner.at != "gone" or {thread.at for thread in others} - allowed:
            raise FaultError(f"nobody goes on: {', '.join(thread.at for thread in state.threads)}")

    # --- the owner ---

    def write_step(self, state: State, index: int, own: Thread) -> State:
        if state.loop == len(self.sizes):
            return state._replace(is_stopping=True).move(index, "announce")
        state = state._replace(loop=state.loop + 1, started=frozenset(), ended=frozenset())
        return state.move(index, "count")

    def count_step(self, state: State, index: int, own: Thread) -> State:
        return state._replace(unfinished=self.sizes[state.loop - 1] * ONE).move(index, "deal", walked=0)

    def deal_step(self, state: State, index: int, own: Thread) -> State:
        left = list(state.left)
        left[own.walked] = self._end(state.loop, own.walked) - self._end(state.loop, own.walked - 1)
        following = (own.walked + 1) % self.workers
        return state._replace(left=tuple(left)).move(index, "deal" if following else "announce", walked=following)

    def announce_step(self, state: State, index: int, own: Thread) -> State:
        word = state.announced
        state = state._replace(announced=(word & ~SLEEPER) + ONE)
        return state.move(index, "rouse" if word & SLEEPER else self._announced(state))

    def rouse_step(self, state: State, index: int, own: Thread) -> State:
        return state.wake("asleep", "doze").move(index, self._announced(state))

    def await_step(self, state: State, index: int, own: Thread) -> State:
        return self._returned(state) if state.unfinished == 0 else state.move(index, "nod")

    def nod_step(self, state: State, index: int, own: Thread) -> State:
        word = state.unfinished
        state = state._replace(unfinished=word | SLEEPER)
        return self._returned(state) if word < ONE else state.move(index, "rest", word=word | SLEEPER)

    def rest_step(self, state: State, index: int, own: Thread) -> State:
        return state.move(index, "resting" if state.unfinished == own.word else "nod")

    # --- the others ---

    def watch_step(self, state: State, index: int, own: Thread) -> State:
        return self._heard(state, index, own, "doze")

    def doze_step(self, state: State, index: int, own: Thread) -> State:
        return self._heard(state._replace(announced=state.announced | SLEEPER), index, own, "sleep")

    def sleep_step(self, state: State, index: int, own: Thread) -> State:
        return state.move(index, "asleep" if state.announced == own.seen | SLEEPER else "doze")

    def hear_step(self, state: State, index: int, own: Thread) -> State:
        return state.move(index, "leave", seen=state.announced & ~SLEEPER)

    def leave_step(self, state: State, index: int, own: Thread) -> State:
        return state.move(index, "gone" if state.is_stopping else "take", walked=0)

    # --- all ---

    def take_step(self, state: State, index: int, own: Thread) -> State:
        if own.walked == self.workers:
            return state.move(index, "tell" if own.finished else self._told(index), walked=0)
        left = state.left[(index + own.walked) % self.workers]
        return state.move(index, "swap", left=left) if left else state.move(index, "take", walked=own.walked + 1)

    def swap_step(self, state: State, index: int, own: Thread) -> State:
        at = (index + own.walked) % self.workers
        if state.left[at] != own.left:
            return state.move(index, "take")
        left = list(state.left)
        left[at] -= 1
        return self._taken(state._replace(left=tuple(left)), index, own)

    def start_step(self, state: State, index: int, own: Thread) -> State:
        """Reads the loop."""
        loop = self._loop_of_turn(state, own)
        turn = self._end(loop, (index + own.walked) % self.workers) - own.left
        if turn in state.started or not 0 <= turn < self.sizes[state.loop - 1]:
            raise FaultError(f"turn {turn} of loop {state.loop} starts twice, or there is none")
        return state._replace(started=state.started | {turn}).move(index, "end", loop=loop, turn=turn)

    def end_step(self, state: State, index: int, own: Thread) -> State:
        """Writes what the turn computed."""
        if state.loop != own.loop or state.threads[OWNER].at in ("write", "count"):
            raise FaultError(f"a turn of loop {own.loop} writes when that has ended")
        state = state._replace(ended=state.ended | {own.turn})
        return state.move(index, "take", turn=-1, finished=own.finished + 1)

    def tell_step(self, state: State, index: int, own: Thread) -> State:
        word = state.unfinished - own.finished * ONE
        state = state._replace(unfinished=word)
        return state.move(index, "stir" if word == SLEEPER else self._told(index), finished=0)

    def stir_step(self, state: State, index: int, own: Thread) -> State:
        return state.wake("resting", "nod").move(index, self._told(index))

    # --- parts of steps ---

    def _end(self, loop: int, place: int) -> int:
        return self.sizes[loop - 1] * (place + 1) // self.workers

    def _announced(self, state: State) -> str:
        return "gone" if state.is_stopping else "take"

    def _told(self, index: int) -> str:
        return "await" if index == OWNER else "watch"

    def _taken(self, state: State, index: int, own: Thread) -> State:
        return state.move(index, "start")

    def _loop_of_turn(self, state: State, own: Thread) -> int:
        return state.loop

    def _heard(self, state: State, index: int, own: Thread, otherwise: str) -> State:
        return state.move(index, otherwise if state.announced & ~SLEEPER == own.seen else "hear")

    def _returned(self, state: State) -> State:
        missing = self.sizes[state.loop - 1] - len(state.ended)
        if missing:
            raise FaultError(f"the owner returns from loop {state.loop} before {missing} turns have ended")
        return state.move(OWNER, "write")


def explore(protocol: Protocol) -> int:
    """Tries every order of steps; returns the number of states.

    Raises:
        FaultError: something happened that must not; with the shortest way there.
    """
    first = protocol.begin()
    came_from: dict[State, tuple[str, State] | None] = {first: None}
    border = [first]
    while border:
        reached = []
        for state in border:
            try:
                following = list(protocol.next_states(state))
                if not following:
                    protocol.check_end(state)
            except FaultError as fault:
                raise FaultError(f"{fault}\n  after {', '.join(_way(came_from, state))}") from None
            for name, other in following:
                if other not in came_from:
                    came_from[other] = (name, state)
                    reached.append(other)
        border = reached
    return len(came_from)


def _way(came_from: dict[State, tuple[str, State] | None], state: State) -> list[str]:
    names = []
    while (link := came_from[state]) is not None:
        names.append(link[0])
        state = link[1]
    return names[::-1]
