"""The duets of a simulated unit's nights, by the schedule and the verdicts of `farm nightly` themselves.

The plan is another one every night: bundles that are the same to the byte would cost nothing. farmrt is another build
where the world says so. A pair costs as much
as `PAIR_BLOCKS` blocks.
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Callable

from benchmarks.farm_units import SIGNS, Alarm
from benchmarks.simulated_series import BLOCKS
from farm.decision.build_spread import measured_change
from farm.decision.duet import Pairs, looks_changed
from farm.decision.duet_schedule import (
    DuetPlan,
    PastNight,
    build_variance,
    is_hint,
    is_spent,
    looks_tonight,
    scheduled_against,
    suspected_duet,
)
from farm.decision.duet_verdict import judge_planned, with_duet
from farm.decision.judgement import Judgement, Verdict
from farm.rows.duet import DuetFigures, SoftwareVerdict
from farm.rows.series import Case

PAIR_BLOCKS = 2.5
CASE = Case("u", "l", "m", "gpu", "default")
GOOD = (
    Verdict.UNCHANGED,
    Verdict.NEW,
    Verdict.IMPROVEMENT,
    Verdict.PROVISIONAL_IMPROVEMENT,
    Verdict.ENVIRONMENT_CHANGED,
)

Counts = dict[str, float]
MeasurePairs = Callable[[int, int, int], Pairs]  # of tonight, against a night, so many
NameBuild = Callable[[int], str]  # of a night


class DuetLedger:
    """What a unit's nights said and spent, and so which duet comes next."""

    def __init__(self, measure: MeasurePairs, build: NameBuild) -> None:
        self._measure, self._build = measure, build
        self._past: list[PastNight] = []
        self.counts: Counts = defaultdict(float)

    def branched(self, measure: MeasurePairs) -> DuetLedger:
        """A ledger with the same past, whose pairs to come are others."""
        branch = DuetLedger(measure, self._build)
        branch._past, branch.counts = list(self._past), defaultdict(float, self.counts)
        return branch

    def night(self, number: int, own: Judgement | None, joint: Judgement | None, again: float) -> Alarm:
        """One night's duet, and what is told.

        Args:
            own: the unit's judgement by itself, which the duet is made by; None where the night has no figure.
            joint: with the word of a twin, where there is one.
            again: share of the night's blocks that were measured again.
        """
        busy = BLOCKS * (1 + again)
        duet, pairs = self._duet(number, own, busy) if own else (None, [])
        cost = len(pairs) * PAIR_BLOCKS
        told = with_duet(joint, duet) if joint and duet else joint
        self._past.append(_past_night(number, told is None or told.verdict in GOOD, duet, pairs, busy, self._build))
        changed = duet is not None and duet.verdict in (SoftwareVerdict.SLOWER, SoftwareVerdict.FASTER)
        self.counts["nights"] += 1
        self.counts["busy"] += busy
        self.counts["quiet_duets"] += 0.0 if changed else cost
        return Alarm(SIGNS.get(told.verdict, 0) if told else 0)

    def _duet(self, number: int, judgement: Judgement, busy: float) -> tuple[DuetFigures | None, Pairs]:
        """The duet of a night, with its pairs."""
        plan = suspected_duet(self._past, judgement, is_spent({CASE: self._past}, busy))
        if plan is None and looks_tonight({CASE: self._past}, [CASE] if is_hint(judgement) else [], busy):
            against = scheduled_against(self._past)
            plan = DuetPlan(against, False) if against is not None else None
        if plan is None:
            fallback = "no bundle" if looks_changed(judgement) else ""
            return DuetFigures(fallback=fallback), []
        plan = dataclasses.replace(plan, variance=build_variance(self._past, judgement))
        pairs: list[tuple[float, float]] = []
        builds = self._build(number), self._build(plan.against)
        verdict = judge_planned(pairs, plan, *builds)
        while verdict.more:
            pairs += self._measure(number, plan.against, verdict.more)
            verdict = judge_planned(pairs, plan, *builds)
        claim = plan.claim.begun if plan.claim else number if verdict.claimed else None
        found = DuetFigures(
            against=plan.against,
            suspected=plan.suspected,
            settled_by=plan.settled_by,
            verdict=verdict.verdict,
            ratio=verdict.ratio,
            ratio_ci=(verdict.low or 0.0, verdict.high or 0.0),
            claim=claim,
        )
        return found, pairs


def _past_night(
    number: int, is_good: bool, duet: DuetFigures | None, pairs: Pairs, busy: float, build: NameBuild
) -> PastNight:
    made = duet is not None and duet.against is not None
    found = measured_change(pairs)
    return PastNight(
        run=number,
        has_bundle=is_good,
        against=duet.against if duet else None,
        verdict=duet.verdict if duet else SoftwareVerdict.NONE,
        suspected=duet is not None and duet.suspected,
        pairs=len(pairs) if made else 0,
        duet_s=len(pairs) * PAIR_BLOCKS,
        busy_s=busy,
        times=pairs if duet and duet.left_open else (),
        build=build(number),
        change=found.change if found else None,
        variance=found.variance if found else 0.0,
        claim=duet.claim if duet else None,
    )
