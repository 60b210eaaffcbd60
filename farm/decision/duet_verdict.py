"""Decides a duet by its pairs, and joins that with what the nights before say of the series. Pure functions."""

import dataclasses
import math

from farm.decision.build_spread import BEYOND, Difference, mean_change, measured_change, score
from farm.decision.duet import CHANGED_SOFTWARE, DuetJudgement, Pairs, judge_duet, looks_changed
from farm.decision.duet_schedule import DuetPlan
from farm.decision.judgement import NO_FACT, NOT_SOFTWARE, SOFTWARE, Judgement, Verdict
from farm.rows.duet import DuetFigures, SoftwareVerdict

OF_SOFTWARE = {SoftwareVerdict.SLOWER: Verdict.REGRESSION, SoftwareVerdict.FASTER: Verdict.IMPROVEMENT}
UNPROVEN = {
    Verdict.REGRESSION: Verdict.PROVISIONAL_REGRESSION,
    Verdict.IMPROVEMENT: Verdict.PROVISIONAL_IMPROVEMENT,
}

UNSETTLED = (Verdict.UNCHANGED, Verdict.NEW, *UNPROVEN, *UNPROVEN.values())


def with_duet(judgement: Judgement, duet: DuetFigures | None) -> Judgement:
    """The verdict on a latency when the software was asked too; only a duet can say that it is the software.

    `duet` is None where the run keeps no bundles: the nights before then decide alone.
    """
    if duet is None:
        return judgement
    if judgement.verdict in UNSETTLED and (verdict := _software_verdict(duet)):
        return _of_software(judgement, duet, verdict)
    if not looks_changed(judgement):
        return judgement
    if duet.fallback:
        return dataclasses.replace(judgement, reason=f"{judgement.reason}; by the nights before alone: {duet.fallback}")
    if (duet.verdict == SoftwareVerdict.SAME and (duet.suspected or duet.identical)) or (
        duet.verdict and duet.settled_by is not None
    ):
        return _of_environment(judgement, duet)
    undecided = f"a duet did not decide it{duet.busy and f', {duet.busy}'}"
    why = undecided if duet.verdict else "no duet was made; another night decides"
    verdict = UNPROVEN.get(judgement.verdict, judgement.verdict)
    return dataclasses.replace(judgement, verdict=verdict, reason=f"{judgement.reason}; {why}")


def _software_verdict(duet: DuetFigures) -> Verdict | None:
    """What it says of the software; None: no change. A difference as large as that of builds is not proven."""
    if duet.is_claim and duet.ratio is not None:
        return Verdict.PROVISIONAL_REGRESSION if duet.ratio > 1 else Verdict.PROVISIONAL_IMPROVEMENT
    return OF_SOFTWARE.get(duet.verdict)


def _of_software(judgement: Judgement, duet: DuetFigures, verdict: Verdict) -> Judgement:
    """The software changed, by what the duet says."""
    low, high = duet.ratio_ci or (None, None)
    said = dataclasses.replace(judgement, verdict=verdict, ratio=duet.ratio, low=low, high=high, more=0)
    if duet.is_claim:
        spread = "" if duet.builds is None else f" by {100 * duet.builds:.1f} %"
        why = f"the build differs: {duet_text(duet)}; builds vary{spread} by themselves, the next ones decide"
        return dataclasses.replace(said, reason=why)
    return dataclasses.replace(said, reason=f"{SOFTWARE}: {duet_text(duet)}", cause=SOFTWARE)


def _of_environment(judgement: Judgement, duet: DuetFigures) -> Judgement:
    """The level moved, and the software of an earlier night moved with it."""
    facts = tuple(duet.environment)
    settled = f", as the duet of run {duet.settled_by} said" if duet.settled_by is not None else ""
    reason = f"{judgement.reason}; {NOT_SOFTWARE}{settled}: {duet_text(duet)}; {'; '.join(facts) or NO_FACT}"
    changed = Verdict.ENVIRONMENT_CHANGED
    return dataclasses.replace(judgement, verdict=changed, reason=reason, more=0, cause=NOT_SOFTWARE, facts=facts)


def duet_text(duet: DuetFigures) -> str:
    """`+10.1 % (+9.5 to +10.8 %) against the software of run 12 in 16 pairs`."""
    if duet.identical:
        return f"it is that of run {duet.against}, byte for byte"
    if duet.ratio is None or duet.ratio_ci is None:
        return f"no pair against the software of run {duet.against} counts"
    ratio, low, high = (100 * math.expm1(math.log(value)) for value in (duet.ratio, *duet.ratio_ci))
    count = f"{len(duet.good_pairs)} pairs" + (f" and {duet.earlier_pairs} before" if duet.earlier_pairs else "")
    return f"{ratio:+.1f} % ({low:+.1f} to {high:+.1f} %) against that of run {duet.against} in {count}"


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
