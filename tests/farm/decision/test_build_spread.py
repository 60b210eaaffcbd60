"""Builds of equal sources differ: what is not beyond that is asked of other builds and bundles before it is called."""

import dataclasses
import math
from collections.abc import Callable

import numpy as np
import pytest

from farm.decision.build_spread import BEYOND, Difference, score, variance_of_builds
from farm.decision.duet import DuetJudgement
from farm.decision.duet_schedule import MENDED_NIGHTS, DuetPlan, PastNight, build_variance, suspected_duet
from farm.decision.duet_verdict import judge_planned, with_duet
from farm.decision.judgement import Judgement, Noise, Verdict
from farm.jobs.nightly.bundles import past_night
from farm.rows.bundle import BundleManifest
from farm.rows.duet import DuetFigures, SoftwareVerdict
from tests.farm.store.bundles import manifest

UNCHANGED = Judgement(Verdict.UNCHANGED, "as before", noise=Noise(2.4, 2.5))
STEADY = dataclasses.replace(UNCHANGED, noise=Noise(2.4, 0.3))
PAIR_SPREAD = 0.02


def nights(count: int = 20) -> list[PastNight]:
    """Accepted nights, each with a build of its own."""
    return [PastNight(run, True, busy_s=60.0, build=f"b{run}") for run in range(1, count + 1)]


def judged(plan: DuetPlan, change: float, random: np.random.Generator, build: str = "new") -> DuetJudgement:
    """A whole duet of two builds."""
    pairs: list[tuple[float, float]] = []
    judgement = judge_planned(pairs, plan, build, f"b{plan.against}")
    while judgement.more:
        pairs += [(1.0, math.exp(change + PAIR_SPREAD * random.standard_normal())) for _ in range(judgement.more)]
        judgement = judge_planned(pairs, plan, build, f"b{plan.against}")
    return judgement


def followed(layout: Callable[[int], float], step: float, judgement: Judgement, seed: int) -> list[DuetJudgement]:
    """A look at run 21, and what the nights after it say of it; `layout` is by how much a run's build is slower."""
    random, past, said = np.random.default_rng(seed), nights(), list[DuetJudgement]()
    plan: DuetPlan | None = DuetPlan(20, False, variance=build_variance(past, judgement))
    for run in range(21, 21 + MENDED_NIGHTS):
        change = math.log1p(step) + layout(run) - layout(plan.against) if plan else 0.0
        if plan is None or (said and not said[-1].claimed):
            break
        said.append(judged(plan, change, random, f"b{run}"))
        begun = plan.claim.begun if plan.claim else run if said[-1].claimed else None
        measured = {"change": change, "variance": 0.005**2, "claim": begun, "build": f"b{run}"}
        past.append(PastNight(run, False, plan.against, said[-1].verdict, True, pairs=6, **measured))  # type: ignore[arg-type]
        plan = suspected_duet(past, judgement)
        plan = plan and dataclasses.replace(plan, variance=build_variance(past, judgement))
    return said


def test_what_no_build_differs_by_is_called_at_once() -> None:
    (said,) = followed(lambda run: 0.0, 0.09, STEADY, 1)
    assert said.verdict == SoftwareVerdict.SLOWER and not said.claimed
    known = DuetPlan(20, False, variance=0.003**2)
    assert judged(known, 0.05, np.random.default_rng(1)).verdict == SoftwareVerdict.SLOWER, "by duets of builds"
    (said,) = followed(lambda run: 0.0, 0.3, UNCHANGED, 1)
    assert said.verdict == SoftwareVerdict.SLOWER, "far beyond what nights vary by"


def test_a_slower_build_of_equal_software_is_not_called() -> None:
    """Run 21 is unlucky, run 20 was lucky: 7 % apart, and the builds after it are as all others."""
    unlucky = {20: -0.035, 21: 0.035}
    said = followed(lambda run: unlucky.get(run, 0.0), 0.0, UNCHANGED, 2)
    assert said[0].claimed and said[0].verdict == SoftwareVerdict.UNDECIDED
    assert [one.verdict for one in said[1:]] == [SoftwareVerdict.UNDECIDED] * (len(said) - 2) + [SoftwareVerdict.SAME]


@pytest.mark.parametrize("seed", range(4))
def test_a_regression_among_builds_that_differ_is_called_within_the_week(seed: int) -> None:
    layouts = np.random.default_rng(seed).uniform(-0.04, 0.04, 99)
    said = followed(lambda run: layouts[run], 0.09, UNCHANGED, seed)
    assert said[-1].verdict == SoftwareVerdict.SLOWER


def test_within_one_build_pairs_decide_alone() -> None:
    plan = DuetPlan(20, True, variance=build_variance(nights(), UNCHANGED))
    assert judged(plan, 0.05, np.random.default_rng(1), build="b20").verdict == SoftwareVerdict.SLOWER
    assert judged(plan, 0.05, np.random.default_rng(1)).claimed, "of another build"


def claim(*against: int, verdict: SoftwareVerdict = SoftwareVerdict.UNDECIDED) -> list[PastNight]:
    """Nights of a claim that run 21 began."""
    return [
        PastNight(run, False, of, verdict, pairs=6, change=0.05, claim=21, build=f"b{run}")
        for run, of in enumerate(against, 21)
    ]


def test_a_claim_asks_another_bundle_each_night_and_none_that_is_newer_than_its_first() -> None:
    plan = suspected_duet([*nights(), *claim(13)], UNCHANGED)
    assert plan and plan.claim and (plan.against, plan.claim.begun) == (12, 21)
    again = suspected_duet([*nights(), *claim(13, 12)], UNCHANGED)
    assert again and again.claim and again.against == 11 and len(again.claim.differences) == 2


def test_a_claim_asks_other_builds_before_the_same_one() -> None:
    same = [dataclasses.replace(night, build="one" if night.run > 5 else "other") for night in nights()]
    plan = suspected_duet([*same, *claim(13)], UNCHANGED)
    assert plan and plan.against == 5


@pytest.mark.parametrize("verdict", [SoftwareVerdict.SAME, SoftwareVerdict.FASTER])
def test_a_claim_that_was_decided_asks_no_more(verdict: SoftwareVerdict) -> None:
    assert suspected_duet([*nights(), *claim(13), *claim(13, 12, verdict=verdict)[1:]], UNCHANGED) is None


def test_a_claim_ends_when_it_is_eight_nights_old() -> None:
    young, old = ([*nights(), *claim(*range(13, 13 - count, -1))] for count in (MENDED_NIGHTS - 1, MENDED_NIGHTS))
    assert suspected_duet(young, UNCHANGED) and suspected_duet(old, UNCHANGED) is None


def test_builds_vary_by_what_duets_of_unchanged_software_show_and_nights_vary_by() -> None:
    assert build_variance(nights(), UNCHANGED) == pytest.approx(0.025**2), "no duet was made yet"
    equal = [dataclasses.replace(night, against=1, change=0.0, variance=1e-6) for night in nights()[1:]]
    assert build_variance([nights()[0], *equal], UNCHANGED) < 0.4 * 0.025**2
    called = [dataclasses.replace(night, verdict=SoftwareVerdict.SLOWER) for night in claim(13, 12)]
    assert build_variance([*nights(), *called], UNCHANGED) == pytest.approx(0.025**2), "that was a change"


def test_duets_within_one_build_say_nothing_of_builds() -> None:
    assert variance_of_builds([Difference(0.04, 0.0, "a", "a")] * 9, 0.02**2) == pytest.approx(0.02**2)
    assert variance_of_builds([Difference(0.04, 0.0, "a", "b")] * 9, 0.02**2) > 0.02**2


def test_one_build_that_is_measured_often_counts_as_one() -> None:
    often = [Difference(0.05, 0.01**2, "new", f"b{number}") for number in range(8)]
    others = [each._replace(build=f"n{number}") for number, each in enumerate(often)]
    assert score(often, 0.023**2) < BEYOND < score(others, 0.023**2)


def test_a_difference_that_builds_may_make_is_told_as_provisional() -> None:
    duet = DuetFigures(
        against=7,
        verdict=SoftwareVerdict.UNDECIDED,
        ratio=1.05,
        ratio_ci=(1.04, 1.06),
        claim=21,
        builds=0.023,
    )
    told = with_duet(UNCHANGED, duet)
    assert told.verdict == Verdict.PROVISIONAL_REGRESSION and not told.cause and told.ratio == 1.05
    assert "+5.0 %" in told.reason and "builds vary by 2.3 % by themselves" in told.reason


def test_a_manifest_keeps_what_the_next_night_asks_of_builds() -> None:
    kept = manifest(
        21,
        build="new",
        against=13,
        verdict=SoftwareVerdict.UNDECIDED,
        change=0.05,
        change_variance=1e-4,
        claim=21,
    )
    read = past_night(BundleManifest.model_validate_json(kept.model_dump_json()))
    assert (read.build, read.change, read.variance, read.claim) == ("new", 0.05, 1e-4, 21)
    plan = suspected_duet([*nights(), read], UNCHANGED)
    assert plan and plan.claim and plan.claim.differences == (Difference(0.05, 1e-4, "new", "b13"),)
    accepted = kept.model_copy(update={"build": "", "files": {"farmrt": "old"}})
    assert past_night(accepted).build == "old", "kept before builds were named"
