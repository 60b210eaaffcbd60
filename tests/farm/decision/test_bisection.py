"""Halving: the right commit is found, skipped ones are passed over, and what cannot be told is not."""

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from farm.decision.bisection import Bisection, Change, Finding, finding

COMMITS = [f"c{number}" for number in range(31)]
SLOWER = Change(1.1, 1.08, 1.12)


@pytest.mark.parametrize("first_bad", range(1, 31))
def test_the_first_bad_commit_is_found_in_five_steps(first_bad: int) -> None:
    bisection, steps = Bisection(COMMITS), 0
    while commit := bisection.next:
        place = COMMITS.index(commit)
        bisection = bisection.having(commit, Finding.BAD if place >= first_bad else Finding.GOOD)
        steps += 1
    assert bisection.suspects == [COMMITS[first_bad]] and steps <= 5


@pytest.mark.slow
@given(st.integers(1, 30), st.sets(st.integers(1, 29)))
def test_commits_that_are_skipped_stay_suspects_only_beside_the_first_bad_one(
    first_bad: int, skipped: set[int]
) -> None:
    bisection = Bisection(COMMITS)
    while commit := bisection.next:
        place = COMMITS.index(commit)
        found = Finding.SKIPPED if place in skipped else Finding.BAD if place >= first_bad else Finding.GOOD
        bisection = bisection.having(commit, found)
    suspects = [COMMITS.index(commit) for commit in bisection.suspects]
    assert first_bad in suspects
    assert set(suspects[:-1]) <= skipped


def test_neighbours_have_nothing_to_measure() -> None:
    bisection = Bisection(COMMITS[:2])
    assert bisection.next is None and bisection.suspects == ["c1"]


def test_a_commit_is_told_from_the_whole_change() -> None:
    assert finding(Change(1.0, 0.99, 1.01), SLOWER) == Finding.GOOD
    assert finding(Change(1.09, 1.07, 1.11), SLOWER) == Finding.BAD
    assert finding(Change(1.04, 1.02, 1.06), SLOWER) is None


def test_an_improvement_is_found_too() -> None:
    faster = Change(0.8, 0.79, 0.81)
    assert finding(Change(0.99, 0.97, 1.01), faster) == Finding.GOOD
    assert finding(Change(0.81, 0.79, 0.83), faster) == Finding.BAD


def test_changes_within_the_margin_are_none() -> None:
    assert SLOWER.is_beyond(0.01) and not SLOWER.is_beyond(0.09)
    assert not Change(1.02, 0.99, 1.05).is_beyond(0.0)
    assert Change(0.9, 0.88, 0.92).is_beyond(0.05)


@pytest.mark.slow
def test_noise_does_not_mislead_the_search() -> None:
    """With intervals of 95 %, 5 steps go astray in few of 300 searches: a wrong interval has to miss by half a step."""
    wrong = 0
    for seed in range(300):
        drawn = random.Random(seed)
        first_bad, bisection = drawn.randrange(1, 31), Bisection(COMMITS)
        while commit := bisection.next:
            true = math.log(1.1) * (COMMITS.index(commit) >= first_bad)
            seen = drawn.gauss(true, 0.01)
            change = Change(math.exp(seen), math.exp(seen - 0.0196), math.exp(seen + 0.0196))
            bisection = bisection.having(commit, finding(change, SLOWER) or Finding.SKIPPED)
        wrong += COMMITS[first_bad] not in bisection.suspects
    assert wrong <= 3
