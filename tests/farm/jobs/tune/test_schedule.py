"""How the phases of a tuning share the time until its deadline, and how many processes a proof has time for."""

import math
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from farm.jobs.compare.interleaved import Effort
from farm.jobs.tune.proof import TOO_FEW, with_remedy
from farm.jobs.tune.schedule import (
    LEAST_SEARCH_SHARE,
    PROOF_ROUNDS,
    PROOF_SHARE,
    PROOF_TURNS,
    TuningSchedule,
    needed_budget_s,
)
from tuner.budget import Budget, Deadline


class Clock:
    """Recorded time: it goes on only when told to."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s

    def spend(self, seconds: float) -> None:
        self.now_s += seconds


def schedule(seconds: float, models: int, clock: Clock) -> TuningSchedule:
    return TuningSchedule(Deadline(clock=clock).within(seconds), models)


def test_one_model_keeps_a_share_for_its_proof() -> None:
    clock = Clock()
    planned = schedule(10.0, 1, clock)
    clock.spend(2.0)  # the trial plan
    assert planned.search(1).at_s == pytest.approx(102.0 + 8.0 * (1 - PROOF_SHARE))
    clock.spend(5.0)
    assert planned.proof().at_s == pytest.approx(110.0)


def test_a_model_of_long_rounds_keeps_what_its_proof_takes_at_least() -> None:
    clock = Clock()
    assert schedule(60.0, 1, clock).search(1, 7.0).at_s == pytest.approx(clock() + 60.0 - PROOF_ROUNDS * 7.0)
    assert schedule(60.0, 1, clock).search(1, 0.1).at_s == pytest.approx(clock() + 60.0 * (1 - PROOF_SHARE))
    assert schedule(20.0, 1, clock).search(1, 7.0).at_s == clock(), "there is no time to search"


def test_processes_that_take_long_to_begin_keep_their_time_beside_a_short_search() -> None:
    clock = Clock()
    for turn_s, left_s in ((0.1, 36.0), (2.5, 60.0 - PROOF_TURNS * 2.5), (10.0, 60.0 * LEAST_SEARCH_SHARE)):
        assert schedule(60.0, 1, clock).search(1, 0.1, turn_s).at_s == pytest.approx(clock() + left_s)
    assert needed_budget_s(20.0, 0.1, selects=False, turn_s=1.0) == 20.0 + PROOF_TURNS
    assert needed_budget_s(0.0, 0.1, selects=False, turn_s=7.0) * (1 - LEAST_SEARCH_SHARE) >= PROOF_TURNS * 7.0


def test_groups_and_proofs_that_follow_keep_their_share() -> None:
    clock = Clock()
    planned = schedule(30.0, 3, clock)
    first = planned.search(2).at_s - clock()
    assert first == pytest.approx(30.0 * (1 - PROOF_SHARE) * 2 / 3)
    clock.spend(first)
    assert planned.search(1).at_s - clock() == pytest.approx((30.0 - first) * (1 - PROOF_SHARE))
    clock.spend(18.0 - first)
    for spent_s in (4.0, 1.0, 7.0):  # what a proof does not need is left to the next one
        assert clock() < planned.proof().at_s <= 130.0
        clock.spend(spent_s)
    assert planned.deadline.left_s == 0.0


def test_what_was_overspent_is_not_spent_again() -> None:
    clock = Clock()
    planned = schedule(1.0, 1, clock)
    clock.spend(3.0)
    assert planned.search(1).is_over and planned.proof().is_over


def processes(seconds_each: Callable[[int], float], ends_s: float, most: int = 12, first_s: float = 0.0) -> int:
    clock = Clock()
    count = 0
    for number in Effort(processes=most, deadline=Deadline(100.0 + ends_s, clock)).numbers(first_s):
        clock.spend(seconds_each(number))
        count += 1
    assert count <= 1 or clock() <= 100.0 + ends_s, "only the first may end too late"
    return count


def test_a_proof_ends_before_its_time_is_up() -> None:
    assert processes(lambda _: 0.5, 100.0) == 12
    assert processes(lambda _: 0.5, 3.2) == 6
    assert processes(lambda _: 5.0, 3.0) == 1
    assert processes(lambda _: 0.5, -1.0) == 1


def test_a_first_process_that_takes_long_needs_its_time() -> None:
    assert processes(lambda _: 30.0, 20.0, first_s=30.0) == 0
    assert processes(lambda _: 30.0, 70.0, first_s=30.0) == 2
    assert processes(lambda _: 0.4, -1.0, first_s=0.4) == 1, "what takes little is worth it, however late"


def test_the_budget_that_would_do_leaves_the_search_what_it_needs() -> None:
    assert needed_budget_s(60.0, 0.1, selects=False) == 100.0
    assert needed_budget_s(60.0, 0.1, selects=True) == 140.0, "rounded up to two digits"
    assert needed_budget_s(10.0, 20.0, selects=False) == 110.0, "five rounds for the proof"


def test_a_proof_that_lacked_time_asks_for_a_longer_budget_than_it_had() -> None:
    clock = Clock()
    planned = schedule(120.0, 2, clock)
    clock.spend(90.0)
    assert planned.spent_s == 45.0
    measured: Any = SimpleNamespace(processes_ms=((1.0,),) * 9)
    assert with_remedy(TOO_FEW, 15.0, measured).endswith("--budget 41 leaves time for them")
    assert with_remedy(TOO_FEW, 15.0, measured, planned.spent_s).endswith("--budget 75 leaves time for them")
    assert TuningSchedule(Deadline(clock=clock), 1).spent_s == 0.0


def test_without_a_deadline_no_phase_has_one() -> None:
    planned = TuningSchedule(Deadline(clock=Clock()), 2)
    ends = (*planned.selection(), planned.search(1, 7.0), planned.search(1), planned.proof(), planned.proof())
    assert all(each.at_s == math.inf and not each.is_over for each in ends)


def test_a_budget_ends_with_its_device_time_or_its_deadline() -> None:
    clock = Clock()
    budget = Budget(5.0, Deadline(clock=clock).within(3.0))
    assert budget.left_s(1.0) == 3.0 and budget.left_s(4.0) == 1.0
    assert budget.deadline.within(10.0) == budget.deadline, "no deadline is put off"
    clock.spend(3.0)
    assert budget.left_s(1.0) == 0.0 and budget.deadline.is_over
    assert budget.covering(9.0) == budget and Budget(5.0, grows=True).covering(9.0).device_s == 9.0
