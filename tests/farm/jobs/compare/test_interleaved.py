"""Fresh processes in turns: how many turns each has, and what their ratio says of a unit that changes its speed."""

from __future__ import annotations

from typing import cast

import numpy as np
import pytest

from farm.farmrt.answers import LoadAnswer
from farm.jobs.compare.interleaved import Effort, PlanMeasurement

TURNS = 8


def measured(processes_ms: np.ndarray) -> PlanMeasurement:
    return PlanMeasurement(
        cast(LoadAnswer, None), 1.0, {}, tuple(tuple(map(float, process)) for process in processes_ms)
    )


@pytest.mark.parametrize(
    ("round_ms", "turns", "rounds"), [(0.0, 8, 10), (1.0, 8, 10), (7.0, 8, 2), (25.0, 5, 1), (70.0, 2, 1), (9e3, 2, 1)]
)
def test_short_rounds_take_more_turns(round_ms: float, turns: int, rounds: int) -> None:
    effort = Effort()
    assert (effort.turns_of(round_ms), effort.rounds(round_ms)) == (turns, rounds)


@pytest.mark.parametrize(("round_ms", "seconds"), [(10.0, (2 + 8 * (1 + 2)) * 0.01), (9e3, (1 + 2) * 9.0)])
def test_a_process_is_known_to_take_its_rounds_and_those_that_warm_up(round_ms: float, seconds: float) -> None:
    assert Effort().process_s(round_ms) == pytest.approx(seconds)


def test_no_process_has_more_turns_than_asked_for() -> None:
    assert Effort(turns=1).turns_of(1.0) == 1


def test_a_process_is_compared_turn_by_turn() -> None:
    """The unit is 2.5 times slower in some turns, for both of a pair: that is no part of their ratio."""
    random = np.random.default_rng(3)
    states = random.choice([1.0, 2.5], (12, TURNS))
    own = 10.3 * states * np.exp(0.02 * random.normal(size=states.shape))
    other = 10.0 * states * np.exp(0.02 * random.normal(size=states.shape))
    ratio = measured(own).over(measured(other))
    assert ratio and ratio.low <= 1.03 <= ratio.high
    assert ratio.high - ratio.low < 0.03


def test_too_few_processes_have_no_ratio() -> None:
    few = measured(np.full((4, TURNS), 10.0))
    assert few.over(few) is None
