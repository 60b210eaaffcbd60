"""A budget in wall time: how search and proof share it, and how many processes a proof has time for."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from farm.jobs.compare.interleaved import Effort
from farm.jobs.tune.wall_budget import PROOF_ROUNDS, PROOF_SHARE, WallBudget, needed_wall_s


class Clock:
    """Recorded time: it goes on only when told to."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s

    def spend(self, seconds: float) -> None:
        self.now_s += seconds


def test_one_model_keeps_a_share_for_its_proof() -> None:
    clock = Clock()
    budget = WallBudget(10.0, 1, clock)
    clock.spend(2.0)  # the trial plan
    assert budget.search_ends_s(1) == pytest.approx(102.0 + 8.0 * (1 - PROOF_SHARE))
    clock.spend(5.0)
    assert budget.proof_ends_s() == pytest.approx(110.0)


def test_a_model_of_long_rounds_keeps_what_its_proof_takes_at_least() -> None:
    clock = Clock()
    assert WallBudget(60.0, 1, clock).search_ends_s(1, 7.0) == pytest.approx(clock() + 60.0 - PROOF_ROUNDS * 7.0)
    assert WallBudget(60.0, 1, clock).search_ends_s(1, 0.1) == pytest.approx(clock() + 60.0 * (1 - PROOF_SHARE))
    assert WallBudget(20.0, 1, clock).search_ends_s(1, 7.0) == clock(), "there is no time to search"


def test_groups_and_proofs_that_follow_keep_their_share() -> None:
    clock = Clock()
    budget = WallBudget(30.0, 3, clock)
    first = budget.search_ends_s(2) - clock()
    assert first == pytest.approx(30.0 * (1 - PROOF_SHARE) * 2 / 3)
    clock.spend(first)
    assert budget.search_ends_s(1) - clock() == pytest.approx((30.0 - first) * (1 - PROOF_SHARE))
    clock.spend(18.0 - first)
    for spent_s in (4.0, 1.0, 7.0):  # what a proof does not need is left to the next one
        assert clock() < budget.proof_ends_s() <= 130.0
        clock.spend(spent_s)
    assert budget.left_s == 0.0


def test_what_was_overspent_is_not_spent_again() -> None:
    clock = Clock()
    budget = WallBudget(1.0, 1, clock)
    clock.spend(3.0)
    assert budget.search_ends_s(1) == budget.proof_ends_s() == clock()


def processes(seconds_each: Callable[[int], float], ends_s: float, most: int = 12, first_s: float = 0.0) -> int:
    clock = Clock()
    count = 0
    for number in Effort(processes=most, ends_s=100.0 + ends_s, clock=clock).numbers(first_s):
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
    assert needed_wall_s(60.0, 0.1, selects=False) == 100.0
    assert needed_wall_s(60.0, 0.1, selects=True) == 140.0, "rounded up to two digits"
    assert needed_wall_s(10.0, 20.0, selects=False) == 110.0, "five rounds for the proof"
