"""Latencies: what is told the same night, what waits for a second one, and who confirms."""

from __future__ import annotations

import dataclasses

import pytest

from farm.decision.judgement import Look, Verdict
from farm.decision.regression import asks_twin, judge, twin_of
from farm.decision.rules import RULES
from farm.decision.timed import Twin
from farm.rows.series import Metric
from tests.farm.decision.nights import STEADY, again, history, night, settled

PHONE = dataclasses.replace(STEADY, passive=True)
TOLD = {1.2: Verdict.REGRESSION, 0.8: Verdict.IMPROVEMENT}
PROVISIONAL = {1.2: Verdict.PROVISIONAL_REGRESSION, 0.8: Verdict.PROVISIONAL_IMPROVEMENT}


def test_nothing_changed() -> None:
    judgement = judge(history(), night(40), Metric.LATENCY)
    assert (judgement.verdict, judgement.more) == (Verdict.UNCHANGED, 0)
    assert judgement.low and judgement.high and judgement.low < 1 < judgement.high
    assert judgement.noise and 1.5 < judgement.noise.within_percent < 3.5


@pytest.mark.parametrize("factor", [1.2, 0.8])
def test_a_step_is_confirmed_by_further_measurements(factor: float) -> None:
    tonight = night(40, 10 * factor)
    first = judge(history(), tonight, Metric.LATENCY)
    assert first.verdict == PROVISIONAL[factor]
    assert first.more > 0
    judgement, measured = settled(history(), tonight, 10 * factor)
    assert (judgement.verdict, judgement.more) == (TOLD[factor], 0)
    assert measured.reruns == first.more
    assert judgement.ratio == pytest.approx(factor, rel=0.03)
    assert judgement.p_value is not None and judgement.p_value < 0.001
    assert judgement.effect == pytest.approx(1 if factor > 1 else -1)


def test_a_slow_first_measurement_is_not_confirmed() -> None:
    judgement, measured = settled(history(), night(40, 11.0), 10.0)
    assert measured.reruns > 0
    assert judgement.verdict in (Verdict.UNCHANGED, Verdict.PROVISIONAL_REGRESSION)


def test_a_single_odd_block_does_not_matter() -> None:
    tonight = night(40)
    odd = dataclasses.replace(tonight, runs=(tonight.runs[0] * 3, *tonight.runs[1:]))
    assert settled(history(), odd, 10.0)[0].verdict == Verdict.UNCHANGED


def test_nothing_more_is_asked_for_when_the_night_is_over() -> None:
    judgement = judge(history(), night(40, 12.0), Metric.LATENCY, final=True)
    assert (judgement.verdict, judgement.more) == (Verdict.PROVISIONAL_REGRESSION, 0)


def test_a_phone_may_be_hot_and_waits_for_a_second_night() -> None:
    before = history(like=PHONE)
    first, measured = settled(before, night(40, 12.0, like=PHONE), 12.0)
    assert (first.verdict, first.more) == (Verdict.PROVISIONAL_REGRESSION, 0)
    second, _ = settled([*before, measured], night(41, 12.0, like=PHONE), 12.0)
    assert (second.verdict, second.nights) == (Verdict.REGRESSION, 2)
    cool, _ = settled([*before, measured], night(41, like=PHONE), 10.0)
    assert cool.verdict == Verdict.UNCHANGED


def test_a_board_whose_state_spoiled_nights_before_is_treated_like_a_phone() -> None:
    before = history()
    before[7] = dataclasses.replace(before[7], runs=(), arms=(), spoiled="throttled")
    assert settled(before, night(40, 12.0), 12.0)[0].verdict == Verdict.PROVISIONAL_REGRESSION


def test_a_twin_confirms_or_denies_in_the_same_night() -> None:
    before, tonight = history(like=PHONE), again(night(40, 12.0, like=PHONE), 6, 12.0)
    other = judge(history(like=PHONE), night(40, 12.1, like=PHONE), Metric.LATENCY)
    confirmed = judge(before, tonight, Metric.LATENCY, twin=twin_of(other), final=True)
    assert confirmed.verdict == Verdict.REGRESSION
    assert "twin" in confirmed.reason
    unchanged = twin_of(judge(history(), night(40), Metric.LATENCY))
    denied = judge(before, tonight, Metric.LATENCY, twin=unchanged, final=True)
    assert denied.verdict == Verdict.PROVISIONAL_REGRESSION
    assert "its twin does not show it" in denied.reason
    board = judge(history(), again(night(40, 12.0), 6, 12.0), Metric.LATENCY, twin=unchanged)
    assert board.verdict == Verdict.PROVISIONAL_REGRESSION


def test_what_neither_unit_is_sure_of_both_are() -> None:
    before, tonight = history(like=PHONE), night(40, 10.6, like=PHONE)
    alone = judge(before, tonight, Metric.LATENCY, final=True)
    assert alone.verdict != Verdict.REGRESSION
    assert asks_twin(alone)
    other = twin_of(judge(history(like=PHONE), again(tonight, 6, 10.6), Metric.LATENCY))
    assert judge(before, again(tonight, 6, 10.6), Metric.LATENCY, twin=other, final=True).verdict == Verdict.REGRESSION


@pytest.mark.parametrize(
    ("own", "other", "shown"),
    [
        (Look(2, 2.3, 0.05, 0.012, 4.0, 2.0), Look(2, 2.2, 0.045, 0.012, 3.6, 1.9), True),
        (Look(2, 2.3, 0.05, 0.012, 4.0, 2.0), Look(3, 2.2, 0.045, 0.012, 3.6, 1.9), False),  # of other nights
        (Look(2, 2.3, 0.05, 0.012, 4.0, 2.0), Look(2, 2.2, -0.045, 0.012, 3.6, 1.9), False),  # faster
        (Look(2, 2.3, 0.05, 0.005, 9.0, 4.0), Look(2, 2.2, 0.02, 0.006, 3.6, 1.9), False),  # far less
        (Look(2, 2.3, 0.05, 0.012, 4.0, 2.0), Look(2, 2.2, 0.03, 0.012, 2.3, 1.9), False),  # together not sure enough
        (Look(2, 2.3, 0.05, 0.005, 9.0, 4.0), Look(2, 2.2, 0.03, 0.02, 1.5, 1.5), False),  # one speaks for both
        (Look(2, 2.3, 0.05, 0.005, 9.0, 0.3), Look(2, 2.2, 0.03, 0.012, 3.6, 1.9), False),  # slow in a single night
        (Look(1, 2.3, 0.05, 0.012, 4.0, 0.0), Look(1, 2.2, 0.045, 0.012, 3.6, 0.0), True),
    ],
)
def test_what_a_twin_shows(own: Look, other: Look, shown: bool) -> None:
    assert Twin((other,)).shows(own, RULES) == shown


def test_a_change_too_small_to_matter_is_none() -> None:
    steady = history(noise=0.001)
    judgement, _ = settled(steady, night(40, 10.1, noise=0.001), 10.1)
    assert judgement.verdict == Verdict.UNCHANGED


def test_starts_are_noisier_than_latencies() -> None:
    tonight = again(night(40, 10.6), 6, 10.6)
    assert judge(history(), tonight, Metric.LATENCY, final=True).verdict == Verdict.REGRESSION
    assert judge(history(), tonight, Metric.INIT, final=True).verdict == Verdict.UNCHANGED


def test_a_step_of_the_past_is_history_with_its_commits() -> None:
    before = [*history(30), *(night(run, 12.0) for run in range(30, 60))]
    before = [dataclasses.replace(point, commit=f"c{point.run}") for point in before]
    judgement, _ = settled(before, night(60, 12.0), 12.0)
    assert judgement.verdict == Verdict.UNCHANGED
    (step,) = judgement.change_points
    assert (step.run, step.commits) == (30, ("c29", "c30"))
    assert step.low < 1.2 < step.high


def test_a_series_that_never_varies() -> None:
    flat = [dataclasses.replace(point, runs=(5.0,) * 6) for point in history()]
    assert judge(flat, dataclasses.replace(night(40), runs=(5.0,) * 6), Metric.LATENCY).verdict == Verdict.UNCHANGED
    changed = dataclasses.replace(night(40), runs=(6.0,) * 12, reruns=6)
    assert judge(flat, changed, Metric.LATENCY).verdict == Verdict.REGRESSION


def test_a_figure_measured_once_a_night_needs_a_second_night() -> None:
    once = [dataclasses.replace(point, runs=point.runs[:1], arms=("",)) for point in history(noise=0.004)]
    slow = [dataclasses.replace(night(run, 15.0, 0.004), runs=(15.0,)) for run in (40, 41)]
    first = judge(once, slow[0], Metric.TUNED_RATIO)
    assert (first.verdict, first.more) == (Verdict.PROVISIONAL_REGRESSION, 0)
    assert judge([*once, slow[0]], slow[1], Metric.TUNED_RATIO).verdict == Verdict.REGRESSION
