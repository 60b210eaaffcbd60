"""Decides a duet as it was planned: by its pairs, and by what builds differ by. Pure functions."""

from __future__ import annotations

import dataclasses
import math

from farm.decision.build_spread import BEYOND, Difference, mean_change, measured_change, score
from farm.decision.duet import CHANGED_SOFTWARE, DuetJudgement, Pairs, judge_duet
from farm.decision.duet_schedule import DuetPlan
from farm.rows.duet import SoftwareVerdict


def judge_planned(pairs: Pairs, plan: DuetPlan, build: str, against: str) -> DuetJudgement:
    """What the pairs say, in the light of other builds.

    Args:
        pairs: as for `judge_duet`.
        plan: of the duet.
        build: names tonight's program, `against` the earlier one.
    """
    if plan.claim is not None:
        return _of_claim(pairs, plan, build, against)
    judgement = judge_duet(pairs, plan.is_thorough, plan.rules, plan.change, plan.earlier)
    if judgement.verdict not in CHANGED_SOFTWARE or plan.is_known or build == against:
        return judgement
    found = measured_change([*plan.earlier, *pairs])
    if found and abs(score([Difference(*found, build, against)], plan.variance)) < BEYOND:
        return dataclasses.replace(judgement, verdict=SoftwareVerdict.UNDECIDED, more=0, claimed=True)
    return judgement


def _of_claim(pairs: Pairs, plan: DuetPlan, build: str, against: str) -> DuetJudgement:
    """Few pairs a night: what they vary by is little beside builds."""
    assert plan.claim is not None
    missing = plan.rules.looks[1] - len(pairs)
    judgement = dataclasses.replace(judge_duet(pairs, True, plan.rules), more=max(missing, 0))
    found = measured_change(pairs)
    if missing > 0 or found is None:
        return dataclasses.replace(judgement, verdict=SoftwareVerdict.UNDECIDED)
    verdict = _verdict([*plan.claim.differences, Difference(*found, build, against)], plan)
    return dataclasses.replace(judgement, verdict=verdict, claimed=verdict == SoftwareVerdict.UNDECIDED)


def _verdict(found: list[Difference], plan: DuetPlan) -> SoftwareVerdict:
    mean = mean_change(found)
    if mean * found[0].change <= 0 or abs(mean) < math.log(plan.rules.smallest_ratio):
        return SoftwareVerdict.SAME
    if abs(score(found, plan.variance)) < BEYOND:
        return SoftwareVerdict.UNDECIDED
    return SoftwareVerdict.SLOWER if mean > 0 else SoftwareVerdict.FASTER
