"""Latencies: what is told the same night, what waits for a second one, and who confirms."""

import dataclasses
from typing import Literal

import pytest

from farm.decision.judgement import Judgement, OnsetTest, Verdict
from farm.decision.regression import compare_points, judge_series, needs_twin, twin_evidence
from farm.decision.rules import RULES
from farm.decision.timed import TwinEvidence
from farm.rows.run import EngineFigure
from farm.rows.series import Metric
from tests.farm.decision.histories import STEADY, history, night, settled, with_more_blocks

PHONE = dataclasses.replace(STEADY, passive=True)
TOLD = {1.2: Verdict.REGRESSION, 0.8: Verdict.IMPROVEMENT}
PROVISIONAL = {1.2: Verdict.PROVISIONAL_REGRESSION, 0.8: Verdict.PROVISIONAL_IMPROVEMENT}


def test_an_unchanged_night_is_unchanged_and_needs_no_further_measurement() -> None:
    judgement = judge_series(history(), night(40), Metric.LATENCY)
    assert (judgement.verdict, judgement.more) == (Verdict.UNCHANGED, 0)
    assert judgement.low and judgement.high and judgement.low < 1 < judgement.high
    assert judgement.noise and 1.5 < judgement.noise.within_percent < 3.5


@pytest.mark.parametrize("factor", [1.2, 0.8])
def test_a_level_shift_is_confirmed_by_further_measurements_of_the_same_night(factor: float) -> None:
    tonight = night(40, 10 * factor)
    first = judge_series(history(), tonight, Metric.LATENCY)
    assert first.verdict == PROVISIONAL[factor]
    assert first.more > 0
    judgement, measured = settled(history(), tonight, 10 * factor)
    assert (judgement.verdict, judgement.more) == (TOLD[factor], 0)
    assert measured.reruns == first.more
    assert judgement.ratio == pytest.approx(factor, rel=0.03)
    assert judgement.p_value is not None and judgement.p_value < 0.001
    assert judgement.effect == pytest.approx(1 if factor > 1 else -1)


@pytest.mark.parametrize(("percent", "verdict"), [(4.5, Verdict.PROVISIONAL_REGRESSION), (6.0, Verdict.REGRESSION)])
def test_one_night_confirms_what_is_far_beyond_the_noise(percent: float, verdict: Verdict) -> None:
    level = 10 + percent / 10
    assert settled(history(), night(40, level), level)[0].verdict == verdict


def test_a_slow_first_measurement_is_not_confirmed() -> None:
    judgement, measured = settled(history(), night(40, 11.0), 10.0)
    assert measured.reruns > 0
    assert judgement.verdict in (Verdict.UNCHANGED, Verdict.PROVISIONAL_REGRESSION)


def test_a_single_odd_block_does_not_matter() -> None:
    tonight = night(40)
    odd = dataclasses.replace(tonight, runs=(tonight.runs[0] * 3, *tonight.runs[1:]))
    assert settled(history(), odd, 10.0)[0].verdict == Verdict.UNCHANGED


def test_nothing_more_is_asked_for_when_the_night_is_over() -> None:
    judgement = judge_series(history(), night(40, 12.0), Metric.LATENCY, final=True)
    assert (judgement.verdict, judgement.more) == (Verdict.PROVISIONAL_REGRESSION, 0)


def test_a_phone_may_be_hot_so_a_second_night_must_confirm() -> None:
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
    before, tonight = history(like=PHONE), with_more_blocks(night(40, 12.0, like=PHONE), 6, 12.0)
    other = judge_series(history(like=PHONE), night(40, 12.1, like=PHONE), Metric.LATENCY)
    confirmed = judge_series(before, tonight, Metric.LATENCY, twin=twin_evidence(other), final=True)
    assert confirmed.verdict == Verdict.REGRESSION
    assert "twin" in confirmed.reason
    unchanged = twin_evidence(judge_series(history(), night(40), Metric.LATENCY))
    denied = judge_series(before, tonight, Metric.LATENCY, twin=unchanged, final=True)
    assert denied.verdict == Verdict.PROVISIONAL_REGRESSION
    assert "its twin does not show it" in denied.reason
    board = judge_series(history(), with_more_blocks(night(40, 12.0), 6, 12.0), Metric.LATENCY, twin=unchanged)
    assert board.verdict == Verdict.PROVISIONAL_REGRESSION


def test_a_unit_and_its_twin_together_confirm_what_neither_could_alone() -> None:
    before, tonight = history(like=PHONE), night(40, 10.6, like=PHONE)
    alone = judge_series(before, tonight, Metric.LATENCY, final=True)
    assert alone.verdict != Verdict.REGRESSION
    assert needs_twin(alone)
    other = twin_evidence(judge_series(history(like=PHONE), with_more_blocks(tonight, 6, 10.6), Metric.LATENCY))
    assert (
        judge_series(before, with_more_blocks(tonight, 6, 10.6), Metric.LATENCY, twin=other, final=True).verdict
        == Verdict.REGRESSION
    )


@pytest.mark.parametrize(
    ("own", "other", "shown"),
    [
        (OnsetTest(2, 2.3, 0.05, 0.012, 4.0, 2.0), OnsetTest(2, 2.2, 0.045, 0.012, 3.6, 1.9), True),
        (OnsetTest(2, 2.3, 0.05, 0.012, 4.0, 2.0), OnsetTest(3, 2.2, 0.045, 0.012, 3.6, 1.9), False),  # of other nights
        (OnsetTest(2, 2.3, 0.05, 0.012, 4.0, 2.0), OnsetTest(2, 2.2, -0.045, 0.012, 3.6, 1.9), False),  # faster
        (OnsetTest(2, 2.3, 0.05, 0.005, 9.0, 4.0), OnsetTest(2, 2.2, 0.02, 0.006, 3.6, 1.9), False),  # far less
        (
            OnsetTest(2, 2.3, 0.05, 0.012, 4.0, 2.0),
            OnsetTest(2, 2.2, 0.03, 0.012, 2.3, 1.9),
            False,
        ),  # together not sure enough
        (
            OnsetTest(2, 2.3, 0.05, 0.005, 9.0, 4.0),
            OnsetTest(2, 2.2, 0.03, 0.02, 1.5, 1.5),
            False,
        ),  # one speaks for both
        (
            OnsetTest(2, 2.3, 0.05, 0.005, 9.0, 0.3),
            OnsetTest(2, 2.2, 0.03, 0.012, 3.6, 1.9),
            False,
        ),  # slow in a single night
        (OnsetTest(1, 2.3, 0.05, 0.012, 4.0, 0.0), OnsetTest(1, 2.2, 0.045, 0.012, 3.6, 0.0), True),
    ],
)
def test_a_twin_shows_a_change_of_similar_size_and_sufficient_score(
    own: OnsetTest, other: OnsetTest, shown: bool
) -> None:
    assert TwinEvidence((other,)).shows(own, RULES) == shown


def test_a_change_below_the_smallest_ratio_is_unchanged() -> None:
    steady = history(noise=0.001)
    judgement, _ = settled(steady, night(40, 10.1, noise=0.001), 10.1)
    assert judgement.verdict == Verdict.UNCHANGED


def test_start_times_need_a_larger_change_than_latencies() -> None:
    tonight = with_more_blocks(night(40, 10.6), 6, 10.6)
    assert judge_series(history(), tonight, Metric.LATENCY, final=True).verdict == Verdict.REGRESSION
    assert judge_series(history(), tonight, Metric.INIT, final=True).verdict == Verdict.UNCHANGED


def test_a_past_level_shift_is_a_change_point_with_its_commits() -> None:
    before = [*history(30), *(night(run, 12.0) for run in range(30, 60))]
    before = [dataclasses.replace(point, commit=f"c{point.run}") for point in before]
    judgement, _ = settled(before, night(60, 12.0), 12.0)
    assert judgement.verdict == Verdict.UNCHANGED
    (step,) = judgement.change_points
    assert (step.run, step.commits) == (30, ("c29", "c30"))
    assert step.low < 1.2 < step.high


def test_a_series_without_any_variation_is_judged() -> None:
    flat = [dataclasses.replace(point, runs=(5.0,) * 6) for point in history()]
    assert (
        judge_series(flat, dataclasses.replace(night(40), runs=(5.0,) * 6), Metric.LATENCY).verdict == Verdict.UNCHANGED
    )
    changed = dataclasses.replace(night(40), runs=(6.0,) * 12, reruns=6)
    assert judge_series(flat, changed, Metric.LATENCY).verdict == Verdict.REGRESSION


def test_a_figure_measured_once_a_night_needs_a_second_night() -> None:
    once = [dataclasses.replace(point, runs=point.runs[:1], arms=("",)) for point in history(noise=0.004)]
    slow = [dataclasses.replace(night(run, 15.0, 0.004), runs=(15.0,)) for run in (40, 41)]
    first = judge_series(once, slow[0], Metric.TUNED_RATIO)
    assert (first.verdict, first.more) == (Verdict.PROVISIONAL_REGRESSION, 0)
    assert judge_series([*once, slow[0]], slow[1], Metric.TUNED_RATIO).verdict == Verdict.REGRESSION


def test_why_adds_to_the_change_instead_of_repeating_it() -> None:
    told = Judgement(Verdict.REGRESSION, "+9.8 % (+7 to +12 %) against 30 nights, 3 re-runs agree", measured="+9.8 %")
    assert dataclasses.replace(told, measured="+9.8 % (+7 to +12 %) against 30 nights").why == "3 re-runs agree"
    assert dataclasses.replace(told, measured="").why == told.reason
    assert Judgement(Verdict.NEW, "+1 %", measured="+1 %").why == "+1 %", "nothing is left unsaid"


@pytest.mark.parametrize("better", ["up", "down"])
def test_of_a_program_s_figure_more_is_better_or_worse_as_it_says(better: Literal["up", "down"]) -> None:
    metric = Metric.of_figure(EngineFigure.of("prompt", "tokens/s", better, [10.0]))
    for factor in TOLD:
        is_worse = (factor < 1) == (better == "up")
        tonight = with_more_blocks(night(40, 10 * factor), 60, 10 * factor)
        judgement = judge_series(history(), tonight, metric, final=True)
        assert judgement.verdict == (Verdict.REGRESSION if is_worse else Verdict.IMPROVEMENT)
        compared = compare_points(night(39), night(40, 10 * factor), metric)
        assert compared.verdict == judgement.verdict and compared.ratio == pytest.approx(factor, rel=0.03)
