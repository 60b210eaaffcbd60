"""The decision on duets: exact without a change, sensitive with one, few pairs first; what a night asks for."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from farm.decision.duet import DUET_RULES, IF_CERTAIN, DuetJudgement, judge_duet
from farm.decision.duet_schedule import (
    LOOKS_ALLOWANCE,
    MENDED_NIGHTS,
    PastNight,
    is_spent,
    left_of,
    looks_tonight,
    scheduled_against,
    suspected_duet,
)
from farm.decision.duet_verdict import with_duet
from farm.decision.judgement import Judgement, OnsetTest, Verdict
from farm.rows.device_state import DeviceState
from farm.rows.duet import DuetFigures, DuetPair, SoftwareVerdict
from farm.rows.nightly import Block
from farm.rows.series import Case

CHANGED = Judgement(Verdict.PROVISIONAL_REGRESSION, "+10.0 % against 20 nights", ratio=1.1, low=1.08, high=1.12)
UNCHANGED = Judgement(Verdict.UNCHANGED, "as before")


def pairs_of(logs: Sequence[float]) -> list[tuple[float, float]]:
    return [(10.0, 10.0 * math.exp(log)) for log in logs]


def duet(
    change: float, spread: float, seed: int, suspected: bool = True, expected: float = 0.0
) -> tuple[DuetJudgement, int]:
    """A whole duet, and how many pairs it took."""
    random, logs = np.random.default_rng(seed), list[float]()
    judgement = judge_duet([], suspected)
    while judgement.more:
        logs += (math.log1p(change) + spread * random.standard_t(3, judgement.more)).tolist()
        judgement = judge_duet(pairs_of(logs), suspected, change=expected)
    return judgement, len(logs)


def test_pairs_without_a_difference_are_of_the_same_software() -> None:
    assert judge_duet(pairs_of([0.0] * 6), True).verdict == SoftwareVerdict.SAME


@pytest.mark.parametrize(("change", "verdict"), [(0.05, "slower"), (-0.05, "faster"), (0.0, "same")])
def test_what_a_duet_says_is_true(change: float, verdict: str) -> None:
    said = [duet(change, 0.01, seed)[0] for seed in range(60)]
    assert sum(one.verdict == verdict for one in said) >= 57
    covered = sum(one.low <= 1 + change <= one.high for one in said if one.low and one.high)
    assert covered >= 51, "a 95 % interval, at looks that the data chose"


@pytest.mark.slow
def test_equal_software_is_next_to_never_called_changed() -> None:
    """Whatever the noise: heavy tails, and two clock states that each process draws."""
    random, called = np.random.default_rng(1), 0
    for number in range(3000):
        states = 0.15 * (random.random((32, 2)) < 0.5)
        logs = states[:, 1] - states[:, 0] + 0.02 * random.standard_t(3, 32) * (number % 2)
        for look in DUET_RULES.looks:
            called += judge_duet(pairs_of(logs[:look].tolist()), True).verdict in ("slower", "faster")
    assert called <= 10, "4.5 are to be expected"


def test_a_change_that_is_not_worth_telling_is_none() -> None:
    assert judge_duet(pairs_of([0.012, 0.0121, 0.0119, 0.0122] * 8), True).verdict == SoftwareVerdict.SAME


def test_few_pairs_suffice_where_nothing_asks_for_more() -> None:
    glances = [duet(0.0, 0.005, seed, suspected=False) for seed in range(40)]
    assert sorted(count for _, count in glances)[35] == DUET_RULES.looks[0]
    assert all(not one.more for one, _ in glances)
    assert duet(0.0, 0.005, 1)[1] >= 6, "a suspicion is not settled by a glance"
    assert duet(0.10, 0.005, 1, suspected=False)[0].verdict == SoftwareVerdict.SLOWER


def test_pairs_that_heat_spoiled_are_made_up_for_and_none_tells_nothing() -> None:
    assert judge_duet([], True).more == 6 and judge_duet([], False).more == 3
    assert judge_duet(pairs_of([0.1] * 5), True).more == 1


def test_a_duet_of_a_suspicion_ends_where_its_pairs_are_nearer_to_no_change() -> None:
    equal = [duet(0.0, 0.02, seed, expected=0.05) for seed in range(60)]
    assert sorted(count for _, count in equal)[45] == DUET_RULES.looks[1]
    assert not any(one.verdict in ("slower", "faster") for one, _ in equal)
    assert sum(count for _, count in equal) < 0.5 * sum(duet(0.0, 0.02, seed)[1] for seed in range(60))
    slower = [duet(0.05, 0.01, seed, expected=0.05)[0].verdict for seed in range(60)]
    assert sum(verdict == SoftwareVerdict.SLOWER for verdict in slower) >= 55


def test_pairs_that_exclude_half_of_a_suspected_change_say_that_it_is_not_the_software() -> None:
    logs = [-0.03, 0.03, 0.01, -0.01, 0.02, -0.02]
    said = {change: judge_duet(pairs_of(logs), True, change=change) for change in (0.1, -0.1, 0.05)}
    assert [one.verdict for one in said.values()] == ["same", "same", "undecided"]
    assert not any(one.more for one in said.values()), "the last is nearer to none"
    assert judge_duet(pairs_of(logs), True).more == 4, "what a duet has found is asked to the end"


def test_a_duet_goes_on_where_the_software_moved_against_the_unit() -> None:
    more = [judge_duet(pairs_of([log] * 6), True, change=0.1).more for log in (0.03, 0.01, -0.03, -0.05)]
    assert more == [4, 0, 0, 4]


def test_the_error_is_spent_at_looks_alone() -> None:
    assert judge_duet(pairs_of([0.1] * 16), True).verdict == SoftwareVerdict.SLOWER
    between = judge_duet(pairs_of([0.1] * 17), True)
    assert (between.verdict, between.more) == (SoftwareVerdict.UNDECIDED, 15)


def nights(count: int, **of_last: object) -> list[PastNight]:
    """Nights with bundles, of runs 1 to `count`."""
    past = [PastNight(run, True, busy_s=60.0) for run in range(1, count)]
    return [*past, PastNight(**{"run": count, "has_bundle": True, "busy_s": 60.0, **of_last})]  # type: ignore[arg-type]


def test_what_looks_changed_is_asked_against_the_last_good_software_before_it_may_have_begun() -> None:
    assert suspected_duet(nights(20), UNCHANGED) is None
    plan = suspected_duet(nights(20), CHANGED)
    assert plan and (plan.against, plan.suspected) == (20, True)
    looks = (OnsetTest(3, 0, 0.1, 0.02, 5.0, 2.0), OnsetTest(8, 0, 0.1, 0.05, 2.0, 0.5))
    since = Judgement(Verdict.REGRESSION, "seen in 3 nights", nights=3, looks=looks)
    plan = suspected_duet(nights(20), since)
    assert plan and plan.against == 18, "the change may have begun in run 19"
    assert suspected_duet([PastNight(1, False)], CHANGED) is None
    new = Judgement(Verdict.NEW, "2 of 4 nights")
    plan = suspected_duet(nights(2), new)
    assert plan and (plan.against, plan.suspected) == (2, False), "no history can judge yet"
    assert suspected_duet(nights(2), new, is_spent=True) is None, "the calendar asks when there is time"


def test_a_suspicion_begins_with_a_glance_where_the_allowance_is_spent() -> None:
    rich, poor = (suspected_duet(nights(20), CHANGED, is_spent) for is_spent in (False, True))
    assert rich and rich.is_thorough and poor and poor.suspected and not poor.is_thorough
    equal, slower = (judge_duet(pairs_of([log] * 3), poor.is_thorough, poor.rules, poor.change) for log in (0.01, 0.1))
    assert (equal.verdict, equal.more) == (SoftwareVerdict.UNDECIDED, 0)
    assert slower.more == 3, "what shows is asked on"


def test_a_slowdown_is_asked_for_again_until_it_is_mended_or_a_week_old() -> None:
    found = PastNight(21, False, against=12, verdict=SoftwareVerdict.SLOWER)
    plan = suspected_duet([*nights(20), found], UNCHANGED)
    assert plan and plan.against == 12
    mended = PastNight(22, True, against=12, verdict=SoftwareVerdict.SAME, suspected=True)
    assert suspected_duet([*nights(20), found, mended], UNCHANGED) is None
    stays = [PastNight(21 + more, False, against=12, verdict=SoftwareVerdict.SLOWER) for more in range(MENDED_NIGHTS)]
    assert suspected_duet([*nights(20), *stays[:-1]], UNCHANGED)
    assert suspected_duet([*nights(20), *stays], UNCHANGED) is None
    assert scheduled_against([*nights(20), *stays]) is None, "what was told is not told again"
    assert scheduled_against([*nights(20), *stays, PastNight(40, True)]) == 40


def test_a_glance_is_enough_for_what_a_duet_has_settled() -> None:
    settled = nights(20, against=19, verdict=SoftwareVerdict.SAME, suspected=True)
    plan = suspected_duet(settled, CHANGED)
    assert plan and (plan.suspected, plan.settled_by) == (False, 20)


def test_a_suspicion_that_a_duet_left_undecided_is_asked_against_the_software_of_a_month_ago() -> None:
    undecided = nights(40, has_bundle=False, against=39, verdict=SoftwareVerdict.UNDECIDED, suspected=True)
    plan = suspected_duet(undecided, CHANGED)
    assert plan and (plan.against, plan.suspected) == (11, True), "what creeps shows there"
    assert plan.change == pytest.approx(math.log(1.1))
    long_ago = [*undecided, *(PastNight(run, True) for run in range(41, 41 + MENDED_NIGHTS))]
    plan = suspected_duet(long_ago, CHANGED)
    assert plan and plan.against == 48
    known = [*nights(39, against=30, verdict=SoftwareVerdict.FASTER), undecided[-1]]
    assert (plan := suspected_duet(known, CHANGED)) and plan.against == 39, "what was told is not told again"


def test_pairs_prove_less_where_the_nights_before_are_certain() -> None:
    """A slowdown of 5 % in pairs that vary by 7 %: 32 pairs cannot prove it by themselves."""
    plans = [suspected_duet(nights(20), Judgement(verdict, "")) for verdict in (CHANGED.verdict, Verdict.REGRESSION)]
    random = np.random.default_rng(5)
    series = [pairs_of((0.05 + 0.07 * random.standard_normal(32)).tolist()) for _ in range(200)]
    found = [
        sum(judge_duet(pairs, True, plan.rules).verdict == SoftwareVerdict.SLOWER for pairs in series)
        for plan in plans
        if plan
    ]
    assert found[0] < 140 and found[1] >= 150


@pytest.mark.slow
def test_equal_software_is_seldom_called_changed_where_the_nights_before_are_certain() -> None:
    random, called = np.random.default_rng(2), 0
    for _ in range(2000):
        pairs = pairs_of((0.05 * random.standard_t(3, 32)).tolist())
        called += any(
            judge_duet(pairs[:look], True, IF_CERTAIN).verdict in ("slower", "faster") for look in IF_CERTAIN.looks
        )
    assert called <= 40, "20 are to be expected"


def left_open(random: np.random.Generator, change: float, count: int = 3) -> list[SoftwareVerdict]:
    """What nights in a row say of software that changed, each with the pairs that the ones before left undecided."""
    said, past = list[SoftwareVerdict](), nights(20)
    for run in range(21, 21 + count):
        plan = suspected_duet(past, CHANGED)
        assert plan and (plan.against, len(plan.earlier)) == (20, 32 * min(run - 21, 2))
        pairs = pairs_of((change + 0.1 * random.standard_normal(32)).tolist())
        said.append(judge_duet(pairs, True, plan.rules, earlier=plan.earlier).verdict)
        past.append(PastNight(run, False, 20, SoftwareVerdict.UNDECIDED, suspected=True, times=pairs))
    return said


def test_pairs_of_nights_that_left_a_suspicion_undecided_are_judged_together() -> None:
    """A slowdown of 5 % in pairs that vary by 10 %: one night alone cannot prove it."""
    random = np.random.default_rng(6)
    said = [left_open(random, 0.05) for _ in range(100)]
    first, second, third = (sum(night == SoftwareVerdict.SLOWER for night in each) for each in zip(*said, strict=True))
    assert first < 45 and second >= first + 20 and third >= 85


@pytest.mark.slow
def test_equal_software_is_no_more_often_called_changed_where_pairs_of_nights_are_judged_together() -> None:
    random = np.random.default_rng(7)
    said = [left_open(random, 0.0) for _ in range(1000)]
    changed = (SoftwareVerdict.SLOWER, SoftwareVerdict.FASTER)
    assert sum(any(night in changed for night in each) for each in said) <= 8, "4.5 are to be expected"


def test_what_has_changed_back_is_not_called_changed() -> None:
    slower, back = pairs_of([0.1, 0.11, 0.09, 0.12] * 8), pairs_of([-0.01, -0.012, -0.008, -0.011] * 4)
    assert judge_duet(slower[:16], True, earlier=slower).verdict == SoftwareVerdict.SLOWER
    assert judge_duet(back, True, earlier=slower).verdict == SoftwareVerdict.UNDECIDED


@pytest.mark.parametrize(("score", "is_asked"), [(2.6, True), (2.4, False)])
def test_what_is_not_told_yet_is_asked_as_long_as_the_allowance_lasts(score: float, is_asked: bool) -> None:
    hint = Judgement(Verdict.UNCHANGED, "", ratio=1.05, looks=(OnsetTest(1, 0, 0.05, 0.02, score, 0.0),))
    assert (suspected_duet(nights(20), hint) is not None) is is_asked
    assert suspected_duet(nights(20), hint, is_spent=True) is None


def test_looks_go_back_thirty_nights_and_seven_in_turn() -> None:
    assert scheduled_against(nights(40)) == 11
    looked = nights(40, against=10, verdict=SoftwareVerdict.SAME)
    assert scheduled_against(looked) == 34
    assert scheduled_against(nights(5)) == 1 and scheduled_against([]) is None


def test_looks_are_paid_from_an_allowance_hints_first_then_who_waited_longest() -> None:
    cases = [Case("u", "l", name, "gpu", "default") for name in "abc"]
    pasts = {case: nights(10) for case in cases}
    assert left_of(LOOKS_ALLOWANCE, pasts, 180.0) == pytest.approx(LOOKS_ALLOWANCE * (180 + 3 * 600))
    spent = {**pasts, cases[0]: nights(10, against=3, verdict=SoftwareVerdict.SAME, pairs=2, duet_s=30.0)}
    assert looks_tonight(spent, [], 600.0) == [cases[1], cases[2], cases[0]]
    assert looks_tonight(spent, [cases[0]], 180.0)[0] == cases[0]
    costly = {case: nights(10, against=3, verdict=SoftwareVerdict.SAME, pairs=2, duet_s=100.0) for case in cases}
    assert looks_tonight(costly, [], 180.0) == []
    assert is_spent(costly, 180.0) and not is_spent(spent, 180.0)


DUET: dict[str, Any] = {"against": 7, "ratio": 1.1, "ratio_ci": (1.09, 1.11)}


def test_only_a_duet_says_that_it_is_the_software() -> None:
    slower = DuetFigures(**DUET, verdict=SoftwareVerdict.SLOWER)
    for judgement in (CHANGED, UNCHANGED):
        told = with_duet(judgement, slower)
        assert told.verdict == Verdict.REGRESSION and (told.ratio, told.low, told.high) == (1.1, 1.09, 1.11)
        assert told.verdict.is_bad and "against that of run 7" in told.reason
    unproven = with_duet(Judgement(Verdict.REGRESSION, "+10 %"), DuetFigures(against=7))
    assert unproven.verdict == Verdict.PROVISIONAL_REGRESSION
    undecided = DuetFigures(**DUET, verdict=SoftwareVerdict.UNDECIDED, suspected=True)
    assert with_duet(Judgement(Verdict.REGRESSION, "+10 %"), undecided).verdict == Verdict.PROVISIONAL_REGRESSION


def test_where_the_software_is_the_same_the_environment_changed() -> None:
    same = DuetFigures(**DUET, verdict=SoftwareVerdict.SAME, suspected=True, environment=("driver: 1 -> 2",))
    told = with_duet(CHANGED, same)
    assert told.verdict == Verdict.ENVIRONMENT_CHANGED and not told.verdict.is_bad and "driver: 1 -> 2" in told.reason
    assert told.ratio == CHANGED.ratio, "by how much the level moved"
    assert with_duet(UNCHANGED, same) == UNCHANGED


def test_without_a_bundle_the_nights_before_decide_and_it_is_said() -> None:
    regression = Judgement(Verdict.REGRESSION, "+10 %")
    alike = DuetFigures(**DUET, verdict=SoftwareVerdict.SAME, identical=True)
    assert with_duet(regression, alike).verdict == Verdict.ENVIRONMENT_CHANGED, "whoever asked for the duet"
    told = with_duet(regression, DuetFigures(fallback="no bundle yet"))
    assert told.verdict == Verdict.REGRESSION and "by the nights before alone: no bundle yet" in told.reason
    assert with_duet(regression, None) == regression


def pair(before_ms: float, tonight_ms: float, share: float | None) -> DuetPair:
    """A pair whose second process waited for a core for so large a share of its time."""
    state = DeviceState()
    common: dict[str, Any] = {"time": "", "init_ms": 1.0, "first_ms": 1.0, "state_before": state, "state_after": state}
    before = Block(**common, arm="a", samples=(before_ms,))
    return DuetPair(
        against=7, before=before, tonight=Block(**common, arm="b", samples=(tonight_ms,), waited_share=share)
    )


def test_pairs_that_mostly_waited_for_a_core_do_not_count_and_it_is_said() -> None:
    duet = DuetFigures(
        against=7,
        suspected=True,
        verdict=SoftwareVerdict.UNDECIDED,
        pairs=(pair(1, 2, None), pair(1, 2, 0.3), *[pair(9, 9, 0.8)] * 3),
    )
    assert duet.good_pairs == [(1, 2), (1, 2)]
    told = with_duet(Judgement(Verdict.REGRESSION, "+10 %"), duet)
    assert told.verdict == Verdict.PROVISIONAL_REGRESSION
    assert told.reason.endswith(
        "a duet did not decide it, the unit was busy with other work: "
        "rounds waited 80 % of their time for a core in 3 of 5 pairs"
    )
    assert DuetFigures(pairs=(pair(1, 2, 0.3),)).busy == ""


@pytest.mark.parametrize("verdict", [Verdict.FAILED, Verdict.WRONG_RESULT, Verdict.SPOILED, Verdict.MISSING])
def test_a_duet_changes_no_verdict_on_something_else(verdict: Verdict) -> None:
    judgement = Judgement(verdict, "why")
    assert with_duet(judgement, DuetFigures(**DUET, verdict=SoftwareVerdict.FASTER)) == judgement
