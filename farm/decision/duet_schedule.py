"""Says which duets a night makes: of which cases, against the software of which earlier night. Pure functions.

What looks changed is always asked, against the last good software before the change may have begun; a second time
against that of a month ago, which shows what creeps. Beside that each case is looked at by the calendar, against the
software of 30 and of 7 nights ago in turn: the former shows what creeps, the latter what one night cannot tell from
noise; each shows all that last night's software would show. All duets have an allowance, a share of the time that the
unit measures anyway: looks by the calendar end before it is spent, suspicions begin with a glance when it is.
"""

import dataclasses
import math
import statistics
from collections.abc import Collection, Mapping, Sequence

from farm.decision.build_spread import LEAST_PRIOR, UNKNOWN_VARIANCE, Difference, variance_of_builds
from farm.decision.duet import CHANGED_SOFTWARE, DUET_RULES, IF_CERTAIN, DuetRules, Pairs, looks_changed
from farm.decision.judgement import Judgement, Verdict
from farm.rows.duet import SoftwareVerdict
from farm.rows.series import Case

ALLOWANCE = 0.13  # of a night's time, for all duets: what exceeds it stays mostly below 0.15
LOOKS_ALLOWANCE = 0.09  # looks by the calendar leave the rest for suspicions
ALLOWANCE_NIGHTS = 60  # that which one night leaves over, the next ones may use
ROTATION = (30, 7)  # nights ago
MENDED_NIGHTS = 8  # so long is a slowdown asked for again; then it is the new level, as in the series
ONSET_SCORE = 3.0  # of an onset that is plausible: `provisional` of the rules for a series
HINT_SCORE = 2.0
SUSPICION_SCORE = 2.5  # that is asked as a change is, as long as the allowance lasts
POOLED_NIGHTS = 2  # whose undecided pairs are judged with tonight's
PAIR_BLOCKS = 2.0  # a pair takes about two blocks, until one was measured
GLANCE_PAIRS = 3
CERTAIN = (Verdict.REGRESSION, Verdict.IMPROVEMENT)


@dataclasses.dataclass(frozen=True)
class PastNight:
    """What a case's earlier night left: whether its bundle is there, the duet that it made, and seconds.

    `against` is the run that its duet was made against (None: it made none), `busy_s` what its `blocks` took. `times`
    are those of the pairs of a suspicion that stayed undecided. `build` names the program that ran; `change` is the
    logarithm that its duet measured and `variance` that by the pairs; `claim` is the run that began the claim which
    the duet is part of (build_spread.py; None: of none).
    """

    run: int
    has_bundle: bool
    against: int | None = None
    verdict: SoftwareVerdict = SoftwareVerdict.NONE
    suspected: bool = False
    pairs: int = 0
    duet_s: float = 0.0
    busy_s: float = 0.0
    blocks: int = 6
    times: Pairs = ()
    build: str = ""
    change: float | None = None
    variance: float = 0.0
    claim: int | None = None

    @property
    def left_open(self) -> bool:
        """Whether it asked a suspicion without an answer."""
        return self.suspected and self.verdict == SoftwareVerdict.UNDECIDED and self.claim is None


@dataclasses.dataclass(frozen=True)
class BuildClaim:
    """A difference that is not beyond what builds differ by yet: the run that began it, what nights found so far."""

    begun: int
    differences: tuple[Difference, ...]


@dataclasses.dataclass(frozen=True)
class DuetPlan:
    """A duet to be made: against which run, and whether something asks for it beside the calendar.

    `settled_by` is the run whose duet said of the same suspicion that it is not the software: a glance is enough then.
    `certain`: the nights before are certain that something changed, so that the pairs need to prove less.
    `change` is the logarithm of what they suspect; 0: nothing, or what a duet has found already.
    `brief`: the allowance is spent, so that this begins with a glance too. `earlier` are pairs that the nights before
    left undecided, to be judged with tonight's. `claim` is to be decided beyond what builds differ by, whose
    `variance` this is; `is_known`: a duet has called the change already, and other builds are not asked again.
    """

    against: int
    suspected: bool
    settled_by: int | None = None
    certain: bool = False
    change: float = 0.0
    brief: bool = False
    earlier: Pairs = ()
    variance: float = 0.0
    claim: BuildClaim | None = None
    is_known: bool = False

    @property
    def is_thorough(self) -> bool:
        """Whether it begins with more than a glance."""
        return self.suspected and not self.brief

    @property
    def rules(self) -> DuetRules:
        """What its pairs are judged by."""
        return IF_CERTAIN if self.certain else DUET_RULES


def suspected_duet(past: Sequence[PastNight], judgement: Judgement, is_spent: bool = False) -> DuetPlan | None:
    """The duet that tonight's judgement asks for, or a slowdown that nobody has mended; None: no such.

    Args:
        past: the nights before, oldest first.
        judgement: of tonight's latency, by the nights before.
        is_spent: nothing is left of the unit's allowance.
    """
    certain = judgement.verdict in CERTAIN
    if (unmended := _unmended(past)) is not None:
        return DuetPlan(unmended, True, certain=certain, is_known=True)
    if claimed := _claimed_duet(past):
        return claimed
    bundles = _comparable(past)
    if bundles and judgement.verdict == Verdict.NEW and not is_spent:
        return DuetPlan(bundles[-1], False)
    if not bundles or not (looks_changed(judgement) or (not is_spent and is_hint(judgement, SUSPICION_SCORE))):
        return None
    since = {night.run for night in past[max(len(past) + 1 - _onset(judgement), 0) :]}
    before = [run for run in bundles if run not in since]
    change = math.log(judgement.ratio or 1.0)
    if (settled := _last_asked(past, SoftwareVerdict.SAME)) and (older := scheduled_against(past)) is not None:
        return DuetPlan(older, False, settled.run, change=change)
    against = (before or bundles[:1])[-1]
    earlier = _left_open(past, bundles)
    if earlier and past[-1].against is not None:
        against = past[-1].against
    elif _last_asked(past, SoftwareVerdict.UNDECIDED):  # what creeps shows against older software
        against = min(against, _aged(past, bundles, max(ROTATION)))
    return DuetPlan(against, True, certain=certain, change=change, brief=is_spent, earlier=earlier)


def _claimed_duet(past: Sequence[PastNight]) -> DuetPlan | None:
    """The duet that an open claim asks for: against a bundle that it has not asked yet, of another build if one is."""
    claim = _open_claim(past)
    if claim is None:
        return None
    nights = [night for night in past if night.claim == claim]
    kept = set(_comparable(past))
    before = [night for night in past if night.run in kept and night.run <= (nights[0].against or 0)]
    found = _differences(past, nights)
    asked, builds = {night.against for night in nights}, {each.against for each in found}
    left = [night for night in before if night.run not in asked]
    chosen = [night for night in left if _build(night) not in builds] or left or before[:1]
    return DuetPlan(chosen[-1].run, True, claim=BuildClaim(claim, tuple(found))) if chosen else None


def _open_claim(past: Sequence[PastNight]) -> int | None:
    """The run that began the claim which is not decided yet; None: there is none, or it is eight nights old."""
    last = next((night for night in reversed(past) if night.claim is not None), None)
    is_open = last is not None and last.verdict == SoftwareVerdict.UNDECIDED
    is_young = last is not None and any(night.run == last.claim for night in past[1 - MENDED_NIGHTS :])
    return last.claim if last and is_open and is_young else None


def build_variance(past: Sequence[PastNight], judgement: Judgement) -> float:
    """The variance of a build's logarithm: what duets of unchanged software showed, beside what nights vary by."""
    changed = {night.claim for night in past if night.verdict in CHANGED_SOFTWARE}
    unsettled = {*changed, _open_claim(past)} - {None}
    equal = [night for night in past if night.verdict not in CHANGED_SOFTWARE and night.claim not in unsettled]
    between = (judgement.noise.between_percent / 100) ** 2 if judgement.noise else UNKNOWN_VARIANCE
    return variance_of_builds(_differences(past, equal), max(between, LEAST_PRIOR))


def _differences(past: Sequence[PastNight], nights: Sequence[PastNight]) -> list[Difference]:
    """What the duets of some of the nights measured."""
    builds = {night.run: _build(night) for night in past}
    return [
        Difference(night.change, night.variance, _build(night), builds.get(night.against, f"run {night.against}"))
        for night in nights
        if night.change is not None and night.against is not None
    ]


def _build(night: PastNight) -> str:
    return night.build or f"run {night.run}"


def _left_open(past: Sequence[PastNight], bundles: Collection[int]) -> Pairs:
    """The pairs that the last nights measured against one and the same bundle, which is there, without an answer."""
    if not past[-1].left_open or past[-1].against not in bundles:
        return ()
    same = (night for night in past[-POOLED_NIGHTS:] if night.left_open and night.against == past[-1].against)
    return [pair for night in same for pair in night.times]


def _last_asked(past: Sequence[PastNight], verdict: SoftwareVerdict) -> PastNight | None:
    """The last of the nights that a change is news for whose suspicion a duet answered so."""
    return next(
        (night for night in past[: -MENDED_NIGHTS - 1 : -1] if night.suspected and night.verdict == verdict), None
    )


def _onset(judgement: Judgement) -> int:
    """How many nights ago the change may have begun at the most, tonight counted."""
    plausible = [look.nights for look in judgement.looks if look.score >= ONSET_SCORE]
    return max([judgement.nights, *plausible])


def _unmended(past: Sequence[PastNight]) -> int | None:
    """The run against which a slowdown was found that no later duet took back; None after eight nights."""
    if not any(night.verdict == SoftwareVerdict.SLOWER for night in past[-MENDED_NIGHTS:]):
        return None
    found: PastNight | None = None
    first = 0
    for number, night in enumerate(past):
        if night.verdict == SoftwareVerdict.SLOWER:
            first = first if found and found.against == night.against else number
            found = night
        elif found and night.against == found.against and night.verdict != SoftwareVerdict.NONE:
            found = None
    kept = found is not None and any(night.run == found.against and night.has_bundle for night in past)
    return found.against if found and kept and len(past) - first < MENDED_NIGHTS else None


def _comparable(past: Sequence[PastNight]) -> list[int]:
    """Runs with a bundle since the software was last found changed: what is known is not told again and again."""
    since = max((night.run for night in past if night.verdict in CHANGED_SOFTWARE), default=0)
    return [night.run for night in past if night.has_bundle and night.run >= since]


def possible_runs(past: Sequence[PastNight]) -> set[int]:
    """The runs that a duet may be made against tonight, whatever tonight's judgement is."""
    unmended = _unmended(past)
    return {*_comparable(past), *(() if unmended is None else (unmended,))}


def scheduled_against(past: Sequence[PastNight]) -> int | None:
    """The run to look at by the calendar; None: no bundle."""
    bundles = _comparable(past)
    looks = sum(night.against is not None and not night.suspected for night in past)
    return _aged(past, bundles, ROTATION[looks % len(ROTATION)]) if bundles else None


def _aged(past: Sequence[PastNight], bundles: Sequence[int], ago: int) -> int:
    """The newest of these runs that is so many nights old, else the oldest."""
    known = set(bundles)
    return next((night.run for night in past[: 1 - ago][::-1] if night.run in known), bundles[0])


def looks_tonight(pasts: Mapping[Case, Sequence[PastNight]], hints: Collection[Case], busy_s: float) -> list[Case]:
    """The cases of a unit that are looked at by the calendar tonight, as far as the allowance goes.

    First those with a hint of a change that does not suffice to suspect one, then those that have waited longest;
    these leave enough for the next night's hint.

    Args:
        pasts: the nights before of the cases that may be looked at, oldest first.
        hints: those of them with a hint tonight.
        busy_s: what tonight's blocks took on this unit.
    """
    left_s = left_of(LOOKS_ALLOWANCE, pasts, busy_s)
    chosen = []
    for case in sorted(pasts, key=lambda case: (case not in hints, _last_look(pasts[case]), case)):
        expected_s = look_s(pasts[case])
        if expected_s * (1 if case in hints else 2) <= left_s:
            chosen.append(case)
            left_s -= expected_s
    return chosen


def is_hint(judgement: Judgement, least: float = HINT_SCORE) -> bool:
    """Whether the nights before show something, with this score, that does not suffice to tell of a change."""
    smallest = math.log(DUET_RULES.smallest_ratio)
    return any(look.score >= least and abs(look.change) >= smallest for look in judgement.looks)


def is_spent(pasts: Mapping[Case, Sequence[PastNight]], busy_s: float) -> bool:
    """Whether duets have taken their allowance, so that a suspicion begins with a glance, too."""
    return left_of(ALLOWANCE, pasts, busy_s) < 0


def left_of(share: float, pasts: Mapping[Case, Sequence[PastNight]], busy_s: float) -> float:
    """Seconds of this share of the last nights' time that duets which found no change have left."""
    recent = [night for past in pasts.values() for night in past[-ALLOWANCE_NIGHTS:]]
    spent_s = sum(night.duet_s for night in recent if night.verdict not in CHANGED_SOFTWARE)
    return share * (busy_s + sum(night.busy_s for night in recent)) - spent_s


def look_s(past: Sequence[PastNight]) -> float:
    """Expected seconds of a look by the calendar."""
    looks_s = [night.duet_s for night in past if night.pairs and not night.suspected]
    if looks_s:
        return statistics.fmean(looks_s)
    busy_s = [night.busy_s / max(night.blocks, 1) for night in past if night.busy_s]
    return GLANCE_PAIRS * PAIR_BLOCKS * (busy_s[-1] if busy_s else 0.0)


def _last_look(past: Sequence[PastNight]) -> int:
    return max((night.run for night in past if night.against is not None), default=0)
