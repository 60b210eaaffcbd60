"""Judges whether a series regressed: gates for nights that cannot be compared, then the test of the metric's kind.

`judge_series` may ask for more measurements of tonight. Its caller loops:

    judgement = judge_series(history, tonight, metric)
    while judgement.more and there is time:
        measure that many more blocks; tonight = the point with their runs, `reruns` grown by as many
        judgement = judge_series(history, tonight, metric)

When all units are done, the caller judges each series for which `needs_twin` is true again, with the evidence of the
unit's twin.
"""

import dataclasses
import itertools
import math
import statistics
from collections.abc import Callable, Sequence

from farm.decision.history import SeriesHistory, has_figure, since_hardware_change
from farm.decision.judgement import ChangePoint, Judgement, Verdict
from farm.decision.rules import RULES, Rules
from farm.decision.samples import compare_samples
from farm.decision.timed import TimedTest, TwinEvidence
from farm.rows.series import Metric, Nature, Point
from farm.rows.status import Status

Z_95 = 1.96


def judge_series(
    history: Sequence[Point],
    tonight: Point | None,
    metric: Metric,
    rules: Rules = RULES,
    twin: TwinEvidence | None = None,
    final: bool = False,
) -> Judgement:
    """The verdict on tonight.

    Args:
        history: the nights before, by the number of their run, oldest first; their clocks do not count.
        tonight: None where the series has no point.
        twin: evidence of another unit of the same SoC and model on the same series tonight.
        final: the night is over, nothing more can be measured.
    """
    if gated := _uncomparable(history, tonight, metric):
        return gated
    assert tonight, "the gates let no other pass"
    if metric.info.nature != Nature.TIMED:
        return _with_value(judge_untimed(since_hardware_change(history, tonight.identity), tonight, metric), tonight)
    return judge_timed(SeriesHistory.of(history, tonight.identity), tonight, metric, rules, twin, final)


def judge_timed(
    history: SeriesHistory,
    tonight: Point,
    metric: Metric,
    rules: Rules = RULES,
    twin: TwinEvidence | None = None,
    final: bool = False,
) -> Judgement:
    """As `judge_series`, for a night with a timed figure and callers that keep the history as arrays."""
    judgement = TimedTest(history, tonight, metric, rules, twin, final).judge()
    if not judgement.more and judgement.verdict not in (Verdict.NEW, Verdict.UNCHANGED):
        judgement = _with_test(_with_new_fingerprint(judgement, history, tonight), history, tonight)
    return dataclasses.replace(judgement, value=tonight.value, change_points=_change_points(history))


def compare_points(before: Point, after: Point, metric: Metric, rules: Rules = RULES) -> Judgement:
    """Compares two nights alone: only the noise within them is known, not that from night to night."""
    if gated := _uncomparable([before], after, metric):
        return gated
    if metric.info.nature != Nature.TIMED:
        return _with_value(judge_untimed([before], after, metric), after)
    shift = compare_samples(before.runs, after.runs)
    if shift is None:
        return Judgement(Verdict.NEW, "there is no figure to compare with", value=after.value)
    smallest = math.log(rules.smallest(metric))
    is_beyond = math.log(shift.low) > 0 or math.log(shift.high) < 0
    verdict = Verdict.UNCHANGED
    if is_beyond and abs(math.log(shift.ratio)) >= smallest:
        is_worse = (shift.ratio > 1) == metric.info.lower_is_better
        verdict = Verdict.REGRESSION if is_worse else Verdict.IMPROVEMENT
    percent, low, high = (100 * (ratio - 1) for ratio in (shift.ratio, shift.low, shift.high))
    reason = f"{percent:+.1f} % against run {before.run} ({low:+.1f} to {high:+.1f} %)"
    return Judgement(
        *(verdict, reason, after.value, before.value, 1),
        *(shift.ratio, shift.low, shift.high, shift.p_value, shift.effect),
    )


def needs_twin(judgement: Judgement, rules: Rules = RULES) -> bool:
    """Whether a twin's evidence can change the verdict: there is a change to confirm or to deny."""
    return any(look.score >= rules.each_with_twin for look in judgement.looks)


def twin_evidence(judgement: Judgement, others: Sequence[Judgement] = ()) -> TwinEvidence | None:
    """The evidence that a unit's judgement gives to its twin; None where it has none.

    `others`: tonight's judgements of the same metric on units of other kinds, which know what is common to all.
    """
    looks = tuple(other.looks for other in others if other.looks)
    return TwinEvidence(judgement.looks, looks) if judgement.looks else None


def _uncomparable(history: Sequence[Point], tonight: Point | None, metric: Metric) -> Judgement | None:
    """The verdict on a night that cannot be compared; None where it can."""
    if tonight is None:
        last = f"; last measured in run {history[-1].run}" if history else ""
        return Judgement(Verdict.MISSING, f"not measured{last}")
    if tonight.status == Status.WRONG_RESULT and metric == Metric.LATENCY:
        return Judgement(Verdict.WRONG_RESULT, tonight.reason or "the outputs are wrong", value=tonight.value)
    if tonight.status not in (Status.OK, Status.WRONG_RESULT):
        return Judgement(Verdict.FAILED, f"{tonight.status}: {tonight.reason or 'no reason was given'}")
    if not tonight.runs and tonight.spoiled:
        return Judgement(Verdict.SPOILED, f"every measurement was spoiled: {tonight.spoiled}")
    if not any(math.isfinite(value) for value in tonight.runs):
        return Judgement(Verdict.FAILED, "no figure: none of its measurements is a number")
    if metric.info.nature == Nature.TIMED and not has_figure(tonight):
        return Judgement(Verdict.FAILED, "no figure: none of its measurements is above zero")
    return _replaced_hardware(history, tonight)


def _replaced_hardware(history: Sequence[Point], tonight: Point) -> Judgement | None:
    last = next((point for point in reversed(history) if point.identity), None)
    if last and tonight.identity and last.identity != tonight.identity:
        reason = f"another piece of hardware than in run {last.run}: the series begins anew"
        return Judgement(Verdict.REPLACED, reason, value=tonight.value)
    return None


def _with_value(judgement: Judgement, tonight: Point) -> Judgement:
    return dataclasses.replace(judgement, value=tonight.value)


def _with_new_fingerprint(judgement: Judgement, history: SeriesHistory, tonight: Point) -> Judgement:
    """Names a changed driver in the reason: it excuses no regression, but shows where to look."""
    last = history.points[-1]
    if not last.fingerprint or not tonight.fingerprint or last.fingerprint == tonight.fingerprint:
        return judgement
    return dataclasses.replace(
        judgement, reason=f"{judgement.reason}; its driver, kernels or engine are others than in run {last.run}"
    )


def _with_test(judgement: Judgement, history: SeriesHistory, tonight: Point) -> Judgement:
    """Adds Mann-Whitney's test of tonight's measurements against the nights of the baseline, and Cliff's delta."""
    last = len(history) - (judgement.nights - 1)
    before = history.points[last - judgement.baseline_nights : last]
    shift = compare_samples([point.value or math.nan for point in before], tonight.runs)
    if shift is None:
        return judgement
    return dataclasses.replace(judgement, p_value=shift.p_value, effect=shift.effect)


def _change_points(history: SeriesHistory) -> tuple[ChangePoint, ...]:
    """The level shifts of the history."""
    return tuple(
        ChangePoint(
            history.points[step.at].run,
            history.points[step.at].time,
            math.exp(step.change),
            math.exp(step.change - Z_95 * step.error),
            math.exp(step.change + Z_95 * step.error),
            (history.points[step.at - 1].commit, history.points[step.at].commit),
        )
        for step in history.level_shifts
    )


LEVEL_NIGHTS = 5
SPREAD_NIGHTS = 30
SPREADS = 3 * 1.4826 / math.sqrt(2)  # of a normal distribution's differences


@dataclasses.dataclass(frozen=True)
class Tolerance:
    """How much worse a figure may become.

    Attributes:
        worse: (before, now) -> by how much `now` is worse (negative: better), where 1 is the limit.
        description: the limit in words.
    """

    worse: Callable[[float, float], float]
    description: str


def _worse_cosine(before: float, now: float) -> float:
    """Distances from 1, by their ratio: twice as far counts, unless both are next to nothing."""
    floor = 1e-6
    return math.log2((max(1 - now, 0) + floor) / (max(1 - before, 0) + floor))


def _worse_error(before: float, now: float) -> float:
    """Half as large again counts."""
    floor = 1e-9
    return math.log((max(now, 0) + floor) / (max(before, 0) + floor)) / math.log(1.5)


def _worse_size(before: float, now: float) -> float:
    """A hundredth counts."""
    return (now - before) / (0.01 * max(abs(before), 1.0))


TOLERANCES = {
    Metric.SQNR: Tolerance(lambda before, now: before - now, "1 dB"),
    Metric.COSINE: Tolerance(_worse_cosine, "twice as far from 1"),
    Metric.MAX_ERROR: Tolerance(_worse_error, "half as large again"),
    Metric.NAN: Tolerance(lambda before, now: now - before, "one"),
    Metric.MEMORY: Tolerance(_worse_size, "1 %"),
    Metric.FILES: Tolerance(_worse_size, "1 %"),
}


def judge_untimed(history: Sequence[Point], tonight: Point, metric: Metric) -> Judgement:
    """The verdict on a night's single figure, against the level of the last nights and what they vary by."""
    past_values = [value for point in history[-SPREAD_NIGHTS:] if (value := _figure(point)) is not None]
    now = _figure(tonight)
    if not past_values or now is None:
        return Judgement(Verdict.NEW, "the first night with this figure", value=now)
    level_of = past_values[-LEVEL_NIGHTS:] if metric.info.nature == Nature.QUALITY else past_values[-1:]
    before, tolerance = statistics.median(level_of), TOLERANCES[metric]
    worse = tolerance.worse(before, now)
    most = 1 + (_spread(past_values, tolerance) if metric.info.nature == Nature.QUALITY else 0.0)
    verdict = Verdict.REGRESSION if worse >= most else Verdict.IMPROVEMENT if worse <= -most else Verdict.UNCHANGED
    reason = _change_text(metric, before, now, tolerance) if verdict != Verdict.UNCHANGED else "as before"
    return Judgement(verdict, reason, value=now, baseline=before, baseline_nights=len(level_of))


def _figure(point: Point) -> float | None:
    """Of the measurements that are numbers."""
    numbers = [value for value in point.runs if math.isfinite(value)]
    return statistics.median(numbers) if numbers else None


def _spread(past_values: Sequence[float], tolerance: Tolerance) -> float:
    """The figure's usual variation: three standard deviations, estimated from the median step between nights."""
    moved = [abs(tolerance.worse(one, other)) for one, other in itertools.pairwise(past_values)]
    return SPREADS * statistics.median(moved) if moved else 0.0


def _change_text(metric: Metric, before: float, now: float, tolerance: Tolerance) -> str:
    unit = f" {metric.info.unit}" if metric.info.unit else ""
    return f"{now:.6g}{unit} instead of {before:.6g}{unit} ({tolerance.description} counts)"
