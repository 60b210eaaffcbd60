"""How often would the decision cry for nothing? Asked of the farm's own nights, by their A/A controls.

The blocks of a night carry two labels for one thing. For each of the last nights those under b stand for "tonight",
those under a of the nights before for its history, and tonight's under a for the further measurements, should the
decision ask for some: the very decision, with half of the measurements. What it calls a change is a false alarm,
except next to a step that the history really has.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from scipy import stats

from farm.decision.control_report import ControlReport
from farm.decision.judgement import Verdict
from farm.decision.nights import Nights, has_figure
from farm.decision.rules import RULES, Rules
from farm.decision.timed import Timed
from farm.rows.series import Metric, Nature, Point, Series

NIGHTS_PER_WEEK = 7
COMPARED_NIGHTS = 28  # of each series: enough of many, and quick
HISTORY_WINDOWS = 1
LEAST_NIGHTS = 8
TAIL = 0.025


def false_alarms(series: Series, rules: Rules = RULES) -> ControlReport | None:
    """What is to be expected of all these series together; None as long as no series has nights enough to tell."""
    timed = {key: points for key, points in series.items() if key.metric.info.nature == Nature.TIMED}
    counts = [_counted(points, key.metric, rules) for key, points in timed.items()]
    comparisons, alarms = sum(count for count, _ in counts), sum(count for _, count in counts)
    if not comparisons:
        return None
    per_week = NIGHTS_PER_WEEK * len(timed) / comparisons
    low, high = poisson_interval(alarms)
    return ControlReport(comparisons, alarms, alarms * per_week, low * per_week, high * per_week)


def poisson_interval(count: int) -> tuple[float, float]:
    """Exact 95 % interval of the mean of a Poisson variable (F. Garwood, 1936)."""
    low = float(stats.chi2.ppf(TAIL, 2 * count)) / 2 if count else 0.0
    return low, float(stats.chi2.isf(TAIL, 2 * (count + 1))) / 2


def _counted(points: Sequence[Point], metric: Metric, rules: Rules) -> tuple[int, int]:
    """Comparisons and alarms of a series."""
    known = Nights.of(points, points[-1].identity) if points else Nights()
    newest = known.points[-(COMPARED_NIGHTS + HISTORY_WINDOWS * rules.window) :]
    nights = [point for point in newest if _has_both(point)]
    steps = {known.points[step.at].run for step in known.steps}
    history = Nights.of([_under(point, "a") for point in nights[:-COMPARED_NIGHTS]], "")
    comparisons = alarms = 0
    for at in range(len(history), len(nights)):
        near = max(rules.beginnings)
        since = {point.run for point in nights[max(0, at - near) : at + near]}
        if at >= LEAST_NIGHTS and not since & steps:
            comparisons += 1
            alarms += _is_alarm(history, nights[at], metric, rules)
        history = history.then(_under(nights[at], "a"))
    return comparisons, alarms


def _is_alarm(history: Nights, point: Point, metric: Metric, rules: Rules) -> bool:
    """Whether the decision tells a change where there is none."""
    first, again = _under(point, "b"), _under(point, "a")
    judgement = Timed(history, first, metric, rules).judge()
    if judgement.more:
        both = dataclasses.replace(first, runs=(*first.runs, *again.runs), reruns=len(again.runs))
        judgement = Timed(history, both, metric, rules, final=True).judge()
    return judgement.verdict in (Verdict.REGRESSION, Verdict.IMPROVEMENT)


def _under(point: Point, arm: str) -> Point:
    """A night's first measurements under one label."""
    first = len(point.runs) - point.reruns
    runs = tuple(run for run, label in zip(point.runs[:first], point.arms, strict=False) if label == arm)
    return dataclasses.replace(point, runs=runs, arms=(arm,) * len(runs), reruns=0)


def _has_both(point: Point) -> bool:
    return all(has_figure(_under(point, arm)) for arm in "ab")
