"""Estimates the decision's false-alarm rate from the farm's own nights, by their A/A controls.

The blocks of a night carry two labels, a and b, for the very same thing. For each of the last nights, blocks labelled b
stand for "tonight", blocks labelled a of the nights before for its history, and tonight's blocks labelled a for the
further measurements that the decision may ask for. Since a and b are the same thing, every change that the decision
reports is a false alarm, except next to a level shift that the history really has.
"""

import dataclasses
from collections.abc import Iterable, Sequence

from farm.decision.history import SeriesHistory, is_any_figure, is_measured
from farm.decision.judgement import Verdict
from farm.decision.rules import RULES, Rules
from farm.decision.timed import TimedTest
from farm.rows.series import Metric, Nature, Point

ENOUGH_ALARMS = 10  # the interval then spans half to twice the estimate
FEW_ALARMS = 0.01  # a week and series: one in a hundred series


@dataclasses.dataclass(frozen=True)
class ControlReport:
    """How often the decision reports a change where there is none, measured with the A/A controls.

    Attributes:
        comparisons: how many comparisons of the two labels of one thing were made, over all nights.
        alarms: in how many of them the decision reported a change.
        expected_alarms_per_week: false alarms to expect of all series together; `low` and `high` its 95 % interval.
        series: how many series were compared.
    """

    comparisons: int
    alarms: int
    expected_alarms_per_week: float
    low: float
    high: float
    series: int

    @property
    def suffices(self) -> bool:
        """Whether the estimate says something: it is known to be below one a week, or it rests on enough alarms.

        One a week of each hundred series where they are more: of thousands only so many comparisons are made.
        """
        return self.high <= max(1.0, FEW_ALARMS * self.series) or self.alarms >= ENOUGH_ALARMS


NIGHTS_PER_WEEK = 7
COMPARED_NIGHTS = 28  # of each series
MOST_COMPARISONS = 5_000  # of all series, about
HISTORY_WINDOWS = 1
LEAST_NIGHTS = 8
TAIL = 0.025


@dataclasses.dataclass(frozen=True)
class ControlCount:
    """How many comparisons of a series were made, and in how many of them the decision reported a change."""

    comparisons: int
    alarms: int


def control_report(counts: Iterable[ControlCount | None]) -> ControlReport | None:
    """The rate that the counts of all series give; None where no comparison was made."""
    timed = [count for count in counts if count]
    comparisons, alarms = sum(count.comparisons for count in timed), sum(count.alarms for count in timed)
    if not comparisons:
        return None
    per_week = NIGHTS_PER_WEEK * len(timed) / comparisons
    low, high = poisson_interval(alarms)
    return ControlReport(comparisons, alarms, alarms * per_week, low * per_week, high * per_week, len(timed))


def compared_nights(series: int) -> int:
    """How many nights of each of so many series to compare: enough of many, and quick."""
    return min(COMPARED_NIGHTS, max(1, MOST_COMPARISONS // max(series, 1)))


def poisson_interval(count: int) -> tuple[float, float]:
    """Exact 95 % interval of the mean of a Poisson variable (F. Garwood, 1936)."""
    from scipy import special  # takes long to import, for most commands in vain

    low = float(special.gammaincinv(count, TAIL)) if count else 0.0
    return low, float(special.gammainccinv(count + 1, TAIL))


def count_alarms(
    points: Sequence[Point], metric: Metric, nights: int = COMPARED_NIGHTS, rules: Rules = RULES
) -> ControlCount | None:
    """Counts the comparisons of the last nights of a series and their false alarms; None where it has no times."""
    if metric.info.nature != Nature.TIMED:
        return None
    looked_at = nights + HISTORY_WINDOWS * rules.window_nights
    known = points[-(looked_at + rules.window_nights) :]  # a window more, by which a level before is known
    past = SeriesHistory.of(known, known[-1].identity) if known else SeriesHistory()
    newest = past.points[-looked_at:]
    compared = [point for point in newest if _has_both(point)]
    steps = {past.points[step.at].run for step in past.level_shifts}
    history = SeriesHistory.of([_of_arm(point, "a") for point in compared[:-nights]], "")
    comparisons = alarms = 0
    for at in range(len(history), len(compared)):
        near = max(rules.onset_nights)
        since = {point.run for point in compared[max(0, at - near) : at + near]}
        if at >= LEAST_NIGHTS and not since & steps:
            comparisons += 1
            alarms += _is_alarm(history, compared[at], metric, rules)
        history = history.with_night(_of_arm(compared[at], "a"))
    return ControlCount(comparisons, alarms)


def _is_alarm(history: SeriesHistory, point: Point, metric: Metric, rules: Rules) -> bool:
    """Whether the decision reports a change, though both arms measure the same thing."""
    first, more = _of_arm(point, "b"), _of_arm(point, "a")
    judgement = TimedTest(history, first, metric, rules).judge()
    if judgement.more:
        both = first.with_members(runs=(*first.runs, *more.runs), reruns=len(more.runs))
        judgement = TimedTest(history, both, metric, rules, final=True).judge()
    return judgement.verdict in (Verdict.REGRESSION, Verdict.IMPROVEMENT)


def _of_arm(point: Point, arm: str) -> Point:
    """A night's first measurements under one label."""
    runs = _runs_of_arm(point, arm)
    return point.with_members(runs=runs, arms=(arm,) * len(runs), reruns=0)


def _runs_of_arm(point: Point, arm: str) -> tuple[float, ...]:
    first = point.runs[: len(point.runs) - point.reruns]
    return tuple([run for run, label in zip(first, point.arms, strict=False) if label == arm])


def _has_both(point: Point) -> bool:
    return is_measured(point) and all(map(is_any_figure, (_runs_of_arm(point, arm) for arm in "ab")))
