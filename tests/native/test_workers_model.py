"""The protocol of the CPU operators' threads in every order of its steps, and faults that the model finds."""

from __future__ import annotations

import pytest

from tests.native.workers_model import ONE, FaultError, Protocol, State, Thread, explore


class EveryThreadAnswers(Protocol):
    """A loop ends when each thread has walked, also one that had no turn."""

    def count_step(self, state: State, index: int, own: Thread) -> State:
        return state._replace(unfinished=self.workers * ONE).move(index, "deal", walked=0)

    def end_step(self, state: State, index: int, own: Thread) -> State:
        return super().end_step(state, index, own).move(index, "take", finished=0)

    def take_step(self, state: State, index: int, own: Thread) -> State:
        return super().take_step(state, index, own._replace(finished=1))

    def tell_step(self, state: State, index: int, own: Thread) -> State:
        return super().tell_step(state, index, own._replace(finished=1))


class LoopIsReadBeforeATurnIsTaken(Protocol):
    def leave_step(self, state: State, index: int, own: Thread) -> State:
        return super().leave_step(state, index, own).move(index, "take", loop=state.loop)

    def _loop_of_turn(self, state: State, own: Thread) -> int:
        return own.loop if own.seen else state.loop  # the owner has seen none


class TurnIsTakenWithoutComparing(Protocol):
    def swap_step(self, state: State, index: int, own: Thread) -> State:
        left = list(state.left)
        left[(index + own.walked) % self.workers] = own.left
        return super().swap_step(state._replace(left=tuple(left)), index, own)


class TurnIsToldBeforeItEnds(Protocol):
    def _taken(self, state: State, index: int, own: Thread) -> State:
        return super()._taken(state._replace(unfinished=state.unfinished - ONE), index, own)

    def end_step(self, state: State, index: int, own: Thread) -> State:
        return super().end_step(state, index, own).move(index, "take", finished=0)


class SleepsWithoutComparing(Protocol):
    def sleep_step(self, state: State, index: int, own: Thread) -> State:
        return state.move(index, "asleep")


class OwnerSleepsUnseen(Protocol):
    def nod_step(self, state: State, index: int, own: Thread) -> State:
        return super().nod_step(state, index, own)._replace(unfinished=state.unfinished)

    def rest_step(self, state: State, index: int, own: Thread) -> State:
        return state.move(index, "resting" if state.unfinished else "nod")


@pytest.mark.parametrize(
    ("workers", "sizes", "may_freeze", "states"),
    [
        (2, (3, 2, 2), False, 10_000),
        (2, (3, 2, 2), True, 10_000),
        (2, (1, 4, 3), True, 10_000),
        pytest.param(3, (3,), True, 50_000, marks=pytest.mark.slow),
        pytest.param(3, (2, 1), False, 400_000, marks=pytest.mark.slow),
    ],
)
def test_every_order_is_right(workers: int, sizes: tuple[int, ...], may_freeze: bool, states: int) -> None:
    """Each turn once, with the data of its loop, all before the owner returns; no thread sleeps for ever."""
    assert explore(Protocol(workers, sizes, may_freeze)) > states


@pytest.mark.parametrize(
    ("protocol", "problem"),
    [
        (LoopIsReadBeforeATurnIsTaken, "starts twice|writes when that has ended"),
        (TurnIsTakenWithoutComparing, "starts twice"),
        (TurnIsToldBeforeItEnds, "before 1 turns have ended"),
        (SleepsWithoutComparing, "nobody goes on"),
        (OwnerSleepsUnseen, "nobody goes on"),
    ],
)
def test_a_fault_is_found(protocol: type[Protocol], problem: str) -> None:
    with pytest.raises(FaultError, match=problem):
        explore(protocol(2, (3, 2)))


def test_a_thread_that_gets_no_core_would_stop_a_loop_that_each_must_answer() -> None:
    assert explore(EveryThreadAnswers(2, (3, 2))) > 1000
    with pytest.raises(FaultError, match="nobody goes on: resting, frozen"):
        explore(EveryThreadAnswers(2, (3, 2), may_freeze=True))
