"""Operators to blame: the right ones are named, and noise is not."""

import math
import random

import pytest

from farm.decision.operator_changes import LEAST_NIGHTS, Times, operator_changes

OPERATORS = [(f"conv{number}", "Conv2D") for number in range(40)]
SLOW = OPERATORS[7]


def nights(count: int, drawn: random.Random, noise: float = 0.02, slower: float = 1.0) -> list[Times]:
    """Nights of operators that take 0.1 to 4 ms, with noise in proportion; one of them is slower."""
    return [
        {
            name: 0.1 * (number + 1) * drawn.gauss(1, noise) * (slower if name == SLOW else 1.0)
            for number, name in enumerate(OPERATORS)
        }
        for _ in range(count)
    ]


def test_an_operator_that_became_slower_is_named_with_its_difference() -> None:
    drawn = random.Random(1)
    (change,) = operator_changes(nights(1, drawn, slower=1.5), nights(10, drawn))
    assert (change.name, change.kind) == SLOW
    assert change.difference_ms == pytest.approx(0.4, rel=0.2)
    assert 0 < change.low_ms < change.difference_ms < change.high_ms


@pytest.mark.slow
def test_noise_is_seldom_blamed() -> None:
    """At most 5 % of models name any operator when none has changed: Bonferroni's bound, over 400 models."""
    named = 0
    for seed in range(400):
        drawn = random.Random(seed)
        named += bool(operator_changes(nights(1, drawn), nights(10, drawn)))
    assert named <= 400 * 0.05 + 3 * math.sqrt(400 * 0.05 * 0.95)


def test_more_nights_since_the_change_show_smaller_ones() -> None:
    found = {1: 0, 5: 0}
    for since in found:
        for seed in range(40):
            drawn = random.Random(seed)
            found[since] += bool(operator_changes(nights(since, drawn, slower=1.06), nights(10, drawn)))
    assert found[5] > found[1]


def test_operators_that_came_and_went_are_named() -> None:
    before: list[Times] = [{("old", "Conv2D"): 1.0 + night / 100, ("same", "Add"): 0.1} for night in range(4)]
    new, old = operator_changes([{("new", "Conv2D"): 2.0, ("same", "Add"): 0.1}], before)
    assert (new.name, new.before_ms, new.now_ms) == ("new", None, 2.0)
    assert (old.name, old.now_ms) == ("old", None) and math.isinf(old.high_ms)


def test_too_few_nights_say_nothing() -> None:
    drawn = random.Random(1)
    assert operator_changes(nights(1, drawn, slower=3), nights(LEAST_NIGHTS - 1, drawn)) == []
    assert operator_changes([], nights(9, drawn)) == []


def test_an_operator_that_few_nights_have_is_not_blamed() -> None:
    drawn = random.Random(1)
    before = [dict(night) for night in nights(9, drawn)]
    for night in before[2:]:
        del night[SLOW]
    assert operator_changes(nights(1, drawn, slower=3), before) == []
