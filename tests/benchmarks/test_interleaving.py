"""Contenders are measured in turns that are fair to all and within the limits; their times are simulated."""

from __future__ import annotations

import pytest

from benchmarks.failures import Failures
from benchmarks.interleaving import MOST_ROUNDS, measure_interleaved
from runtime.errors import DeviceLostError
from runtime.statistics.ratios import MINIMUM_ROUNDS


class Steady:
    """A contender whose rounds all take the same time; it notes in a log how much it was asked for."""

    def __init__(self, name: str, round_ms: float, log: list[tuple[str, int, int]]) -> None:
        self.name, self._round_ms, self._log = name, round_ms, log

    def turn(self, rounds: int, warmup: int) -> list[float]:
        self._log.append((self.name, rounds, warmup))
        return [self._round_ms] * rounds


class Dying(Steady):
    """A contender that dies at its third call."""

    def turn(self, rounds: int, warmup: int) -> list[float]:
        times = super().turn(rounds, warmup)
        if sum(name == self.name for name, _, _ in self._log) == 3:
            raise DeviceLostError("farmrt: ended with exit status 139")
        return times


def test_each_turn_begins_with_another_contender() -> None:
    log: list[tuple[str, int, int]] = []
    measure_interleaved([Steady(name, 60.0, log) for name in "ABC"], turns=3, limit_s=1e9)
    assert "".join(name for name, _, _ in log) == "ABC" + "ABC" + "BCA" + "CAB"


def test_turns_of_fast_contenders_have_more_rounds_and_slow_rounds_need_no_warm_up() -> None:
    log: list[tuple[str, int, int]] = []
    lanes = measure_interleaved([Steady(str(ms), ms, log) for ms in (1.0, 12.0, 500.0)], turns=1, limit_s=1e9)
    assert [len(lane.turns[0]) for lane in lanes] == [MOST_ROUNDS, 5, 1]
    assert [warmup for _, _, warmup in log[3:]] == [1, 1, 0]


def test_the_others_go_on_when_a_contender_dies() -> None:
    log: list[tuple[str, int, int]] = []
    good, bad = measure_interleaved([Steady("good", 30.0, log), Dying("bad", 30.0, log)], turns=8, limit_s=1e9)
    assert len(good.turns) == 8 and not good.reason
    assert len(bad.turns) == 1
    assert bad.reason == "bad: farmrt: ended with exit status 139"


def test_the_time_limit_leaves_enough_turns_for_an_interval() -> None:
    lanes = measure_interleaved([Steady("A", 30.0, [])], turns=50, limit_s=0.0, clock=iter(range(1000)).__next__)
    assert len(lanes[0].turns) == MINIMUM_ROUNDS


def test_an_unforeseen_error_is_kept_with_its_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    failures = Failures()
    with failures.recorded("tune"):
        raise KeyError("launch")
    assert failures.lines == ["tune: KeyError: 'launch'"]
    assert "Traceback" in capsys.readouterr().err
