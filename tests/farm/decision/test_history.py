"""What the series' own past says: a change that has a precedent is not confirmed; its levels shift where they did."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from farm.decision.history import SeriesHistory, moves
from farm.decision.judgement import OnsetTest, Verdict
from farm.decision.level_shifts import find_level_shifts
from farm.decision.regression import judge_series
from farm.decision.rules import RULES
from farm.decision.timed import TwinEvidence
from farm.rows.series import Metric, Point
from tests.farm.decision.histories import history, night, settled, with_more_blocks

NO_SHIFTS = np.empty(0)


def steady(nights: int = 60) -> np.ndarray:
    return np.random.default_rng(3).normal(0, 0.01, nights)


def with_odd_night(points: list[Point], at: int, level: float) -> list[Point]:
    return [night(at, level) if point.run == at else point for point in points]


def test_a_night_as_odd_as_one_before_is_provisional() -> None:
    tonight = night(60, 11.5)
    assert settled(history(60), tonight, 11.5)[0].verdict == Verdict.REGRESSION
    judgement, _ = settled(with_odd_night(history(60), 25, 11.4), tonight, 11.5)
    assert judgement.verdict == Verdict.PROVISIONAL_REGRESSION
    assert "moved as far before" in judgement.reason


def test_a_far_larger_change_than_any_before_is_confirmed() -> None:
    judgement, _ = settled(with_odd_night(history(60), 25, 11.4), night(60, 14.0), 14.0)
    assert judgement.verdict == Verdict.REGRESSION


def test_one_lasting_shift_in_the_past_may_have_been_software() -> None:
    before = [*history(30), *(night(run, 12.0) for run in range(30, 75))]
    assert settled(before, night(75, 13.2), 13.2)[0].verdict == Verdict.REGRESSION


def test_all_shifts_but_one_are_what_a_series_does_by_itself() -> None:
    levels = [10.0, 11.0, 13.0]
    restless = SeriesHistory.of([night(run, levels[run // 20]) for run in range(60)], "one")
    assert restless.restless_shifts == pytest.approx([0.095], abs=0.02)
    assert len(SeriesHistory.of([night(run, levels[run // 20]) for run in range(40)], "one").restless_shifts) == 0


def test_a_single_night_of_a_young_series_is_not_confirmed() -> None:
    assert settled(history(25), night(25, 12.0), 12.0)[0].verdict == Verdict.PROVISIONAL_REGRESSION
    assert settled(history(40), night(40, 12.0), 12.0)[0].verdict == Verdict.REGRESSION


@settings(max_examples=20)
@given(st.floats(0.2, 5.0), st.sampled_from([1, 2, 3, 5, 8]))
def test_moves_do_not_depend_on_the_scale_or_the_level_of_a_series(scale: float, nights: int) -> None:
    one, other = moves(steady(), nights), moves(2.0 + scale * steady(), nights)
    assert one and other
    assert other.sizes == pytest.approx(one.sizes)
    assert other.sigma == pytest.approx(scale * one.sigma)


def test_precedents_are_told_by_size_and_not_by_the_newest_nights() -> None:
    levels = steady()
    levels[-3] += 0.2
    found = moves(levels, 1)
    assert found
    assert not found.has_precedent(0.1, NO_SHIFTS, 0.5, left_out=7)
    assert found.has_precedent(0.1, NO_SHIFTS, 0.5, left_out=0)
    assert found.has_precedent(0.1, np.array([0.06]), 0.5, left_out=7)


def test_the_standard_deviation_follows_the_recent_past() -> None:
    calm, wild = moves(steady(120), 1), moves(np.concatenate([steady(60), 5 * steady(60)]), 1)
    assert calm and wild
    assert wild.sigma > 3 * calm.sigma


def test_what_other_units_show_too_is_not_confirmed_by_a_twin() -> None:
    own, twin = OnsetTest(1, 2.3, 0.05, 0.012, 4.0, 0.0), OnsetTest(1, 2.2, 0.045, 0.012, 3.6, 0.0)
    calm, moved = OnsetTest(1, 2.0, 0.001, 0.01, 0.1, 0.0), OnsetTest(1, 2.0, 0.06, 0.01, 4.0, 0.0)
    faster = dataclasses.replace(moved, change=-0.06)
    assert TwinEvidence((twin,)).shows(own, RULES)
    assert TwinEvidence((twin,), ((calm,), (calm,), (moved,))).shows(own, RULES)
    assert TwinEvidence((twin,), ((faster,),)).shows(own, RULES)
    assert not TwinEvidence((twin,), ((moved,), (calm,))).shows(own, RULES)


def nights_with_reruns(slower: float) -> list[Point]:
    return [with_more_blocks(point, 3, 10 * slower) if point.run % 6 == 0 else point for point in history(60)]


@pytest.mark.parametrize("slower", [1.08, 1.04])
def test_further_measurements_that_always_come_out_slower_prove_nothing(slower: float) -> None:
    before = nights_with_reruns(slower)
    known = SeriesHistory.of(before, "one")
    assert known.order_effect == pytest.approx(np.log(slower), abs=0.015)
    tonight = with_more_blocks(night(60), 12, 10 * slower)
    judgement = judge_series(before, tonight, Metric.LATENCY, final=True)
    assert judgement.verdict == Verdict.UNCHANGED
    assert judgement.ratio == pytest.approx(1.0, abs=0.01)  # what comes out slower is taken off once, not twice


def test_further_measurements_like_the_first_ones_are_left_as_they_are() -> None:
    known = SeriesHistory.of(nights_with_reruns(1.0), "one")
    tonight = with_more_blocks(night(60), 6, 10.0)
    assert known.corrected(tonight) == tonight


def found(levels: np.ndarray) -> list[int]:
    return [step.at for step in find_level_shifts(levels, np.ones(len(levels)))]


def noise(nights: int, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).normal(0, 0.01, nights)


def test_level_shifts_are_found_at_their_nights() -> None:
    levels = noise(120)
    levels[40:] += 0.05
    levels[80:] -= 0.08
    first, second = find_level_shifts(levels, np.ones(120))
    assert (first.at, second.at) == (40, 80)
    assert first.change == pytest.approx(0.05, abs=3 * first.error)
    assert second.change == pytest.approx(-0.08, abs=3 * second.error)


@pytest.mark.parametrize("sign", [1, -1])
def test_shifts_up_and_down_are_found_alike(sign: int) -> None:
    levels = noise(60)
    levels[30:] += 0.06
    assert found(sign * levels) == found(levels) == [30]


def test_noise_and_spikes_are_no_level_shifts() -> None:
    assert sum(len(found(noise(365, seed))) for seed in range(20)) <= 1
    spiked = noise(120)
    spiked[[20, 50, 51, 90]] += 0.2
    assert found(spiked) == []


def test_a_shift_in_the_last_nights_is_too_short_to_be_a_level() -> None:
    levels = noise(60)
    levels[57:] += 0.2
    assert found(levels) == []


@pytest.mark.parametrize("nights", [0, 1, 2, 9])
def test_short_and_constant_histories_have_no_level_shifts(nights: int) -> None:
    assert found(np.zeros(nights)) == []
    assert found(np.zeros(100)) == []
