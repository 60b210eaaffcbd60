"""Decides from the pairs of a duet whether the software has changed. Pure functions.

A pair is a fresh process of an earlier night's software and one of tonight's, run in turns on one unit. What disturbs
one disturbs the other (L. Bulej et al., "Duet benchmarking", ICPE 2020), and who begins is drawn by lot: without a
change the logarithm of their ratio is as likely positive as negative, whatever the noise. So Wilcoxon's signed ranks
(1945) are exact here, for heavy tails too; they need no history.

The pairs are looked at a few times, more only while undecided. Each look spends its part of one error for the whole
duet (K. K. G. Lan and D. L. DeMets, "Discrete sequential boundaries for clinical trials", 1983). Looks that are too
small to ever fall below their part spend nothing and leave it to the next. A suspicion that one night leaves undecided
is asked again, and its pairs are judged together with the next night's.
"""

import dataclasses
import math
import statistics
from collections.abc import Sequence

from farm.decision.judgement import Judgement, Verdict
from farm.rows.duet import SoftwareVerdict
from runtime.statistics import signed_ranks

Pairs = Sequence[tuple[float, float]]
TAIL_95 = 0.025
CHANGED_SOFTWARE = (SoftwareVerdict.SLOWER, SoftwareVerdict.FASTER)
CHANGED = (
    Verdict.REGRESSION,
    Verdict.IMPROVEMENT,
    Verdict.PROVISIONAL_REGRESSION,
    Verdict.PROVISIONAL_IMPROVEMENT,
)


@dataclasses.dataclass(frozen=True)
class DuetRules:
    """Thresholds of a duet, each with its reason.

    Attributes:
        looks: after so many pairs it is decided whether to go on. Three are a cheap glance; six are the fewest whose
            range is a 95 % interval; 16 the fewest that can fall below their part of `error`, 10 if certain.
        error: chance that a duet calls equal software changed, over all looks and both directions; a pair spends at
            most its share of it. The allowance of duets (duet_schedule.py) is some 140 pairs a year where a night has
            six blocks: 0.007 false calls a year, in any world that lets duets keep it.
        error_if_certain: the same for a duet that is made because the nights before are certain of a change: 0.044 a
            year if all were.
        shown: a duet of a suspicion goes on while it shows this share of the suspected change, or what is worth
            reporting: else it is nearer to none. Where its whole interval is below this share, it is not the software.
        opposite: the same in the other direction, as a multiple of what is worth reporting: the unit may have moved one
            way and the software the other.
        sign_ratio, sign_chance: a duet that nothing but the calendar asked for ends where it shows less than this
            ratio, or where six pairs or more of equal software often look so different.
    """

    looks: tuple[int, ...] = (3, 6, 10, 16, 32)
    error: float = 1.5e-3
    error_if_certain: float = 1e-2
    smallest_ratio: float = 1.02
    shown: float = 0.5
    opposite: float = 2.0
    sign_ratio: float = 1.015
    sign_chance: float = 0.16


DUET_RULES = DuetRules()
IF_CERTAIN = dataclasses.replace(DUET_RULES, error=DUET_RULES.error_if_certain)


@dataclasses.dataclass(frozen=True)
class DuetJudgement:
    """What a duet's pairs say: a verdict, tonight's time over the earlier software's with its 95 % interval.

    Attributes:
        chance: how likely equal software looks at least so different (two-sided).
        more: how many further pairs would tell more; 0: it is settled.
        claimed: it is changed by the pairs alone, but builds differ as much: the nights to come decide.
    """

    verdict: SoftwareVerdict
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    chance: float = 1.0
    more: int = 0
    claimed: bool = False


def judge_duet(
    pairs: Pairs, suspected: bool, rules: DuetRules = DUET_RULES, change: float = 0.0, earlier: Pairs = ()
) -> DuetJudgement:
    """Says whether tonight's software is slower, faster, the same, or undecided yet.

    Args:
        pairs: the time of the earlier software and of tonight's, of each pair that nothing spoiled.
        suspected: something looks changed; a glance is then not enough to call it settled.
        change: the logarithm by which it looks changed; 0 of a suspicion: the duet goes on until it is decided.
        earlier: of the same suspicion in the nights just before, which left it undecided, against the same software.
            They add to what is known, not to the looks: each night spends an error of its own.
    """
    more = _missing(len(pairs), suspected, rules)
    if not pairs:
        return DuetJudgement(SoftwareVerdict.UNDECIDED, more=more)
    before, tonight = zip(*earlier, *pairs, strict=True)
    found = signed_ranks.paired_ratio(before, tonight)
    low, estimate, high = map(math.log, (found.low, found.value, found.high))
    verdict, goes_on = SoftwareVerdict.UNDECIDED, True
    if len(pairs) in _looks(suspected, rules) or not more:  # between the looks no error is spent
        verdict = _verdict(len(pairs), low, estimate, high, found.chance, rules)
        newest = statistics.median(second / first for first, second in pairs)
        if verdict in CHANGED_SOFTWARE and (newest - 1) * estimate <= 0:
            verdict = SoftwareVerdict.UNDECIDED  # it may have changed back since
        is_open = verdict == SoftwareVerdict.UNDECIDED
        goes_on = is_open and _is_sign(len(pairs), estimate, found.chance, suspected, rules, change)
        verdict = _within(len(pairs), low, high, rules.shown * abs(change)) if is_open and not goes_on else verdict
    return DuetJudgement(verdict, found.value, found.low, found.high, found.chance, more if goes_on else 0)


def _verdict(count: int, low: float, estimate: float, high: float, chance: float, rules: DuetRules) -> SoftwareVerdict:
    smallest = math.log(rules.smallest_ratio)
    look = max((look for look in rules.looks if look <= count), default=0)
    if look and abs(estimate) >= smallest and chance <= _allowed(look, rules):
        return SoftwareVerdict.SLOWER if estimate > 0 else SoftwareVerdict.FASTER
    return _within(count, low, high, smallest)


def _within(count: int, low: float, high: float, largest: float) -> SoftwareVerdict:
    """The same where the whole interval is smaller than this; six pairs are the fewest that have one."""
    has_interval = 2 * signed_ranks.share_at_most(count, 0) <= 2 * TAIL_95
    return SoftwareVerdict.SAME if has_interval and -largest <= low and high <= largest else SoftwareVerdict.UNDECIDED


def _is_sign(count: int, estimate: float, chance: float, suspected: bool, rules: DuetRules, change: float) -> bool:
    """Whether undecided pairs look as if more of them would show a change."""
    if change:
        smallest = math.log(rules.smallest_ratio)
        is_shown = math.copysign(1.0, change) * estimate >= min(rules.shown * abs(change), smallest)
        return is_shown or abs(estimate) >= rules.opposite * smallest
    is_unlikely = count < rules.looks[1] or chance <= rules.sign_chance
    return suspected or (abs(estimate) >= math.log(rules.sign_ratio) and is_unlikely)


def _missing(count: int, suspected: bool, rules: DuetRules) -> int:
    """How many pairs are missing until the next look; 0 after the last."""
    return next((look - count for look in _looks(suspected, rules) if look > count), 0)


def _looks(suspected: bool, rules: DuetRules) -> tuple[int, ...]:
    return rules.looks[1:] if suspected else rules.looks


def _allowed(look: int, rules: DuetRules) -> float:
    """The chance below which this look calls a change, so that all looks together spend no more than the error."""
    spent = allowed = 0.0
    for count in (count for count in rules.looks if count <= look):
        part = rules.error * count / rules.looks[-1] - spent
        allowed = part if 2 * signed_ranks.share_at_most(count, 0) <= part else 0.0
        spent += allowed
    return allowed


def looks_changed(judgement: Judgement) -> bool:
    """Whether the nights before say that something has changed, certain or not: a duet then asks the software."""
    return judgement.verdict in CHANGED
