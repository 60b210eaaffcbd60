"""The verdict on a series: gates first, then the metric's own way to compare.

`judge` may ask for more measurements of tonight. Its caller loops:

    judgement = judge(history, tonight, metric)
    while judgement.more and there is time:
        measure that many more blocks; tonight = the point with their runs, `reruns` grown by as many
        judgement = judge(history, tonight, metric)

and, when all units are through, judges what `asks_twin` once more with the word of the unit's twin.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

from farm.decision.figures import judge_figure
from farm.decision.judgement import ChangePoint, Judgement, Verdict
from farm.decision.nights import Nights, has_figure, since_exchange
from farm.decision.rules import RULES, Rules
from farm.decision.samples import compare_samples
from farm.decision.timed import Timed, Twin
from farm.rows.series import Metric, Nature, Point
from farm.rows.status import Status

Z_95 = 1.96


def judge(
    history: Sequence[Point],
    tonight: Point | None,
    metric: Metric,
    rules: Rules = RULES,
    twin: Twin | None = None,
    final: bool = False,
) -> Judgement:
    """The verdict on tonight.

    Args:
        history: the nights before, by the number of their run, oldest first; their clocks do not count.
        tonight: None where the series has no point.
        twin: what another unit of the same SoC and model says of the same series tonight.
        final: the night is over, nothing more can be measured.
    """
    if gated := _gated(history, tonight, metric):
        return gated
    assert tonight, "the gates let no other pass"
    if metric.info.nature != Nature.TIMED:
        return _with_value(judge_figure(since_exchange(history, tonight.identity), tonight, metric), tonight)
    return judge_timed(Nights.of(history, tonight.identity), tonight, metric, rules, twin, final)


def judge_timed(
    known: Nights,
    tonight: Point,
    metric: Metric,
    rules: Rules = RULES,
    twin: Twin | None = None,
    final: bool = False,
) -> Judgement:
    """As `judge`, of a night with a figure that is a time, for callers that keep the nights before as arrays."""
    judgement = Timed(known, tonight, metric, rules, twin, final).judge()
    is_told = not judgement.more and judgement.verdict not in (Verdict.NEW, Verdict.UNCHANGED)
    judgement = _with_test(_with_cause(judgement, known, tonight), known, tonight) if is_told else judgement
    return _with_history(_with_value(judgement, tonight), known)


def compare_points(before: Point, after: Point, metric: Metric, rules: Rules = RULES) -> Judgement:
    """Two nights, without the nights between: what a night's own noise hides is all that is known."""
    if gated := _gated([before], after, metric):
        return gated
    if metric.info.nature != Nature.TIMED:
        return _with_value(judge_figure([before], after, metric), after)
    found = compare_samples(before.runs, after.runs)
    if found is None:
        return Judgement(Verdict.NEW, "there is no figure to compare with", value=after.value)
    smallest = math.log(rules.smallest[metric])
    is_beyond = math.log(found.low) > 0 or math.log(found.high) < 0
    verdict = Verdict.UNCHANGED
    if is_beyond and abs(math.log(found.ratio)) >= smallest:
        verdict = Verdict.REGRESSION if found.ratio > 1 else Verdict.IMPROVEMENT
    percent = 100 * (found.ratio - 1)
    reason = (
        f"{percent:+.1f} % against run {before.run} ({100 * (found.low - 1):+.1f} to {100 * (found.high - 1):+.1f} %)"
    )
    return Judgement(
        *(verdict, reason, after.value, before.value, 1),
        *(found.ratio, found.low, found.high, found.p_value, found.effect),
    )


def asks_twin(judgement: Judgement, rules: Rules = RULES) -> bool:
    """Whether the word of a twin can turn the verdict: there is something to confirm or to deny."""
    return any(look.score >= rules.each for look in judgement.looks)


def twin_of(judgement: Judgement) -> Twin | None:
    """The word of a unit on the series of its twin; None where it has none."""
    return Twin(judgement.looks) if judgement.looks else None


def _gated(history: Sequence[Point], tonight: Point | None, metric: Metric) -> Judgement | None:
    """The verdict on a night that cannot be compared."""
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
    return _replaced(history, tonight)


def _replaced(history: Sequence[Point], tonight: Point) -> Judgement | None:
    last = next((point for point in reversed(history) if point.identity), None)
    if last and tonight.identity and last.identity != tonight.identity:
        reason = f"another piece of hardware than in run {last.run}: the series begins anew"
        return Judgement(Verdict.REPLACED, reason, value=tonight.value)
    return None


def _with_value(judgement: Judgement, tonight: Point) -> Judgement:
    return dataclasses.replace(judgement, value=tonight.value)


def _with_cause(judgement: Judgement, known: Nights, tonight: Point) -> Judgement:
    """A changed driver excuses nothing, but tells where to look."""
    last = known.points[-1]
    if not last.fingerprint or not tonight.fingerprint or last.fingerprint == tonight.fingerprint:
        return judgement
    return dataclasses.replace(
        judgement, reason=f"{judgement.reason}; its driver or kernels are others than in run {last.run}"
    )


def _with_test(judgement: Judgement, known: Nights, tonight: Point) -> Judgement:
    """With Mann-Whitney's test of tonight's measurements against the nights of the baseline, and Cliff's delta."""
    last = len(known) - (judgement.nights - 1)
    before = known.points[last - judgement.baseline_nights : last]
    compared = compare_samples([point.value or math.nan for point in before], tonight.runs)
    if compared is None:
        return judgement
    return dataclasses.replace(judgement, p_value=compared.p_value, effect=compared.effect)


def _with_history(judgement: Judgement, known: Nights) -> Judgement:
    """With the steps of the history."""
    found = tuple(
        ChangePoint(
            known.points[step.at].run,
            known.points[step.at].time,
            math.exp(step.change),
            math.exp(step.change - Z_95 * step.error),
            math.exp(step.change + Z_95 * step.error),
            (known.points[step.at - 1].commit, known.points[step.at].commit),
        )
        for step in known.steps
    )
    return dataclasses.replace(judgement, change_points=found)
