"""Candidates on a simulated clock: whatever their programs take to build, the budget is kept and used."""

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from farm.jobs.tune import candidate_trials
from farm.jobs.tune.candidate_trials import CandidateTrials
from farm.jobs.tune.schedule import MOST, Pace
from farm.jobs.tune.selecting import covering
from runtime.errors import ProcessEndedError
from runtime.selection.trials import CandidateNode
from tuner.budget import Budget

LOADING_S = 0.3


class SimulatedUnit:
    """Loads a trial plan in LOADING_S, and builds each node in its own seconds; a negative one crashes."""

    def __init__(self, budget_s: float, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_s, self.timed, self.batches = 0.0, 0, [0]
        unit: Any = SimpleNamespace(session=SimpleNamespace(respawn=lambda: self.passed(LOADING_S)))
        any_: Any = None
        self.trials = CandidateTrials(
            unit, any_, any_, any_, "simulated", any_, lambda: budget_s - self.trials.device_s, clock=lambda: self.now_s
        )
        monkeypatch.setattr(candidate_trials, "candidate_plan", lambda nodes, *_: nodes)
        monkeypatch.setattr(CandidateTrials, "_time_plan", lambda _, nodes: self.build(nodes))
        monkeypatch.setattr(CandidateTrials, "_condemn", lambda *_: None)

    def passed(self, seconds: float) -> None:
        self.now_s += seconds

    def build(self, nodes: list[float]) -> None:
        self.passed(LOADING_S + sum(map(abs, nodes)))
        if min(nodes) < 0:
            raise ProcessEndedError("the compiler died")
        self.timed += len(nodes)
        self.batches.append(len(nodes))

    def run(self, nodes: list[float]) -> None:
        self.trials.time(cast(list[CandidateNode], nodes))


@pytest.mark.parametrize("build_s", [0.02, 0.1, 0.5, 0.9])
@pytest.mark.parametrize("seed", range(5))
def test_the_budget_is_kept_within_a_second_and_used(
    build_s: float, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    budget_s = 4.5
    random = np.random.default_rng(seed)
    unit = SimulatedUnit(budget_s, monkeypatch)
    unit.run([build_s * float(random.uniform(0.3, 1.7)) for _ in range(400)])
    assert unit.now_s <= budget_s + 1.0
    assert unit.now_s >= 0.6 * budget_s and unit.timed >= 2
    assert unit.trials.is_over()


def test_what_crashes_is_paid_for_and_the_others_are_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    unit = SimulatedUnit(20.0, monkeypatch)
    unit.run([0.2, 0.2, 0.2, -0.2, 0.2, 0.2])
    assert unit.timed == 5
    assert unit.trials.device_s == pytest.approx(unit.now_s)


def test_without_a_limit_all_are_timed_in_full_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    unit = SimulatedUnit(float("inf"), monkeypatch)
    unit.run([0.5] * 33)
    assert unit.timed == 33 and max(unit.batches) == MOST


def test_nothing_begins_when_the_time_is_up() -> None:
    assert [Pace().fitting(left_s) for left_s in (-1.0, 0.0, 0.1)] == [0, 0, 1]
    pace = Pace()
    pace.note(2, 1.0)
    assert [pace.fitting(left_s) for left_s in (0.4, 0.5, 1.7, 100.0)] == [0, 1, 3, MOST]
    assert [pace.fitting(left_s, 2 * MOST) for left_s in (1.7, 100.0)] == [3, 2 * MOST]


def test_a_choice_on_a_slow_unit_has_time_for_one_launch_and_then_for_all_that_it_needs() -> None:
    level, asked = Budget(4.5, grows=True), Budget(4.5)
    assert covering(level, 40, 0.0, 12.0).left_s(12.0) > 0.0, (
        "the peaks took all: one launch shows what the others cost"
    )
    assert covering(level, 40, 1.5, 12.0).device_s == 12.0 + 40 * 1.5
    assert covering(level, 40, 0.01, 1.0).device_s == 4.5
    assert covering(asked, 40, 1.5, 12.0) == asked, "a budget that was asked for is kept"
