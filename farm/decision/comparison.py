"""Decides from samples of A and B whether B is slower, in words and as figures of a row. Pure functions."""

import dataclasses
import math
import statistics
from collections.abc import Iterable, Sequence

from farm.decision.samples import SampleComparison, compare_pairs, compare_samples, logarithms
from farm.rows.compare import CompareFigures, CompareRow, ComparisonOutcome, Side
from farm.rows.core_waits import MOSTLY, busy_text, highest_share, is_mostly_waiting
from farm.rows.nightly import Block
from farm.rows.status import Status
from runtime.statistics import signed_ranks

SIGNIFICANT = 0.01
LEAST_BLOCKS = 5  # of each: with fewer, Mann-Whitney's p cannot fall below SIGNIFICANT
LEAST_TURNS = signed_ranks.least_pairs(SIGNIFICANT)
SHA256_DIGITS = 64
_Z_95 = 1.96
_Z_SHOWN = 2.576 + 1.282  # found at SIGNIFICANT, two-sided, in nine of ten comparisons


Turn = tuple[Block, Block]


@dataclasses.dataclass(frozen=True)
class ComparisonDecision:
    """The figures of a CompareRow of the same names."""

    outcome: ComparisonOutcome
    verdict: str
    ratio: float | None = None
    ratio_ci: tuple[float, float] | None = None
    p_value: float | None = None
    effect: float | None = None
    smallest_percent: float | None = None


def decide(a_ms: Sequence[float], b_ms: Sequence[float], margin_percent: float) -> ComparisonDecision:
    """Decides on the medians of blocks that were measured apart; a difference of no more than the margin is none."""
    counts = [len(logarithms(side_ms)) for side_ms in (a_ms, b_ms)]
    shift = compare_samples(a_ms, b_ms)
    if shift is None or min(counts) < LEAST_BLOCKS:
        text = f"A has {counts[0]} blocks that count, B {counts[1]}; {LEAST_BLOCKS} of each are needed"
        return ComparisonDecision(ComparisonOutcome.NONE, f"not decided: {text}")
    return _decision(shift, margin_percent)


def decide_turns(blocks: Sequence[Block], margin_percent: float) -> ComparisonDecision:
    """Decides on turns, a block of A and one of B each, as pairs: what drifts from turn to turn moves both.

    Rounds that mostly wait for a core hide what they do: they may show a difference, never that there is none.
    """
    turns = turns_that_count(blocks)
    a_ms, b_ms = ([statistics.median(turn[side].samples) for turn in turns] for side in (0, 1))
    shift = compare_pairs(a_ms, b_ms)
    if shift is None or len(turns) < LEAST_TURNS:
        text = f"{len(turns)} turns count; {LEAST_TURNS} are needed"
        return ComparisonDecision(ComparisonOutcome.NONE, f"not decided: {text}")
    waits = [share for turn in turns if (share := _waited_share(turn)) is not None]
    decision = _decision(shift, margin_percent, statistics.median(waits) if waits else 0.0)
    mostly = [share for share in waits if is_mostly_waiting(share)]
    return on_busy_unit(decision, statistics.median(mostly)) if mostly else decision


def _decision(shift: SampleComparison, margin_percent: float, waited_share: float = 0.0) -> ComparisonDecision:
    """What both waited for a core, so large a share of their times, is the same for both.

    A difference of what they did looks smaller by it, so that only a larger one would show.
    """
    smallest = max(_smallest_percent(shift.low, shift.high) / (1 - min(waited_share, MOSTLY)), margin_percent)
    outcome = _outcome(shift, margin_percent)
    verdict = _in_words(outcome, shift, smallest, margin_percent)
    interval = (shift.low, shift.high)
    return ComparisonDecision(outcome, verdict, shift.ratio, interval, shift.p_value, shift.effect, smallest)


def turns_that_count(blocks: Sequence[Block]) -> list[Turn]:
    """Turns that neither heat nor other work spoiled; where other work leaves too few, those that it spoiled too."""
    turns = turns_of(blocks)
    calm = [turn for turn in turns if not spoiled(turn)]
    cool = [turn for turn in turns if not _throttled(turn)]
    return calm if len(calm) >= LEAST_TURNS else cool


def spoiled(turn: Turn) -> str:
    """What spoiled a turn, heat or other work on the unit, in words; empty where nothing did."""
    return _throttled(turn) or busy_text(_waited_share(turn))


def count_of_waiting(blocks: Sequence[Block]) -> int:
    """How many turns mostly waited for a core."""
    return sum(is_mostly_waiting(_waited_share(turn)) for turn in turns_of(blocks))


def turns_of(blocks: Sequence[Block]) -> list[Turn]:
    """Blocks of A and of B, in turns, as pairs."""
    return list(zip(blocks[::2], blocks[1::2], strict=True))


def _throttled(turn: Turn) -> str:
    return turn[0].throttled or turn[1].throttled


def _waited_share(turn: Turn) -> float | None:
    return highest_share(block.waited_share for block in turn)


def on_busy_unit(decision: ComparisonDecision, share: float) -> ComparisonDecision:
    """What is left of a decision whose rounds waited so large a share of their time for a core, more than MOSTLY."""
    match decision.outcome:
        case ComparisonOutcome.NONE:
            return decision
        case ComparisonOutcome.SLOWER | ComparisonOutcome.FASTER:
            verdict = f"{decision.verdict}; {busy_text(share)}, so that it may be more"
            return dataclasses.replace(decision, verdict=verdict)
        case _:
            verdict = f"undecided: {busy_text(share)}, which hides differences; measure again when it is idle"
            return dataclasses.replace(
                decision, outcome=ComparisonOutcome.UNDECIDED, verdict=verdict, smallest_percent=None
            )


def compare_figures(
    a: Side,
    b: Side,
    decision: ComparisonDecision,
    margin_percent: float,
    notes: Sequence[str] = (),
    blocks: Sequence[Block] = (),
) -> CompareFigures:
    """The figures of a row; `notes` are added to what differs between the sides anyway."""
    return CompareFigures(
        a=a,
        b=b,
        outcome=decision.outcome,
        verdict=decision.verdict,
        ratio=decision.ratio,
        ratio_ci=decision.ratio_ci,
        p_value=decision.p_value,
        effect=decision.effect,
        smallest_percent=decision.smallest_percent,
        margin_percent=margin_percent,
        notes=(*differences(a, b), *notes),
        blocks=tuple(blocks),
    )


def _outcome(shift: SampleComparison, margin_percent: float) -> ComparisonOutcome:
    if shift.low <= 1 <= shift.high:
        return ComparisonOutcome.SAME
    counts = abs(shift.ratio - 1) * 100 > margin_percent
    if shift.p_value >= SIGNIFICANT:
        return ComparisonOutcome.UNDECIDED if counts else ComparisonOutcome.SAME
    if not counts:
        return ComparisonOutcome.TOO_SMALL
    return ComparisonOutcome.SLOWER if shift.ratio > 1 else ComparisonOutcome.FASTER


def _smallest_percent(low: float, high: float) -> float:
    """The step that would have been found, from the standard error that the 95 % interval of the ratio shows."""
    error = (math.log(high) - math.log(low)) / (2 * _Z_95) if low > 0 else math.inf
    return 100 * math.expm1(_Z_SHOWN * error)


def _in_words(
    outcome: ComparisonOutcome, shift: SampleComparison, smallest_percent: float, margin_percent: float
) -> str:
    if outcome == ComparisonOutcome.SAME:
        return f"no difference beyond the noise (the smallest that would show: {smallest_percent:.1f} %)"
    word, near, far = ("slower", shift.low, shift.high) if shift.ratio > 1 else ("faster", shift.high, shift.low)
    percent, least, most = (f"{100 * abs(ratio - 1):.1f}" for ratio in (shift.ratio, near, far))
    text = f"B is {percent} % {word} ({least} to {most}), {p_text(shift.p_value)}"
    match outcome:
        case ComparisonOutcome.TOO_SMALL:
            return f"{text}: not more than the {margin_percent:g} % that count"
        case ComparisonOutcome.UNDECIDED:
            return f"undecided: {text}, not below {SIGNIFICANT:g}: more measurements would tell"
        case _:
            return text


def p_text(p_value: float) -> str:
    """`p = 0.012`, `p < 0.001`."""
    return f"p = {p_value:.3f}" if p_value >= 0.001 else "p < 0.001"


def is_worse(row: CompareRow) -> bool:
    """Whether a row makes the exit status 1: a confirmed regression, or a job that failed."""
    return row.outcome == ComparisonOutcome.SLOWER or row.status != Status.OK


def slowest_first(rows: Iterable[CompareRow]) -> list[CompareRow]:
    """Failures, then the largest slowdown first; what was not compared comes last."""
    return sorted(rows, key=lambda row: (row.status == Status.OK, row.ratio is None, -(row.ratio or 0.0)))


def differences(a: Side, b: Side) -> tuple[str, ...]:
    """What else differs between the two: their fingerprints and the versions of what made them."""
    pairs = ((a.fingerprint, b.fingerprint), (a.versions, b.versions))
    return tuple(
        f"{name.replace('_', ' ')}: {_short(ours[name])} in A, {_short(theirs[name])} in B"
        for ours, theirs in pairs
        for name in ours
        if name in theirs and ours[name] != theirs[name]
    )


def _short(text: str) -> str:
    """Twelve characters tell hashes apart; other words stay."""
    return text[:12] if len(text) == SHA256_DIGITS and text.isalnum() else text


CLAIMED = 0.95  # of the intervals cover the truth


@dataclasses.dataclass(frozen=True)
class Coverage:
    """What comparisons of a thing with itself gave.

    Attributes:
        comparisons: how many had an interval.
        covering: of those, how many intervals hold 1.
        share_ci: 95 % interval of the share that covers (C. Clopper and E. Pearson, 1934).
        width_percent: median width of the intervals.
        told: how often a difference was told that counts.
    """

    comparisons: int
    covering: int
    share_ci: tuple[float, float]
    width_percent: float
    told: int

    @property
    def is_honest(self) -> bool:
        """Whether the share can be as high as the intervals claim; few replicates make them a little too wide."""
        return self.share_ci[1] >= CLAIMED


def coverage(rows: Sequence[CompareRow]) -> Coverage | None:
    """Counts the rows of one model, runtime and unit; None where none has an interval."""
    intervals = [row.ratio_ci for row in rows if row.ratio_ci]
    if not intervals:
        return None
    covering = sum(low <= 1.0 <= high for low, high in intervals)
    told = sum(row.outcome in (ComparisonOutcome.SLOWER, ComparisonOutcome.FASTER) for row in rows)
    width = 100.0 * statistics.median(high - low for low, high in intervals)
    return Coverage(len(intervals), covering, _share_interval(covering, len(intervals)), width, told)


def _share_interval(count: int, of: int) -> tuple[float, float]:
    """Exact interval of a share (C. Clopper and E. Pearson, 1934)."""
    from scipy import special  # takes long to import, for most commands in vain

    tail = (1 - CLAIMED) / 2
    low = float(special.betaincinv(count, of - count + 1, tail)) if count else 0.0
    high = float(special.betaincinv(count + 1, of - count, 1 - tail)) if count < of else 1.0
    return low, high
