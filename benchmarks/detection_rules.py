"""Detection rules, which say on which nights of a series to raise an alarm: farm's decision and four plain rules."""

from __future__ import annotations

import copy
import dataclasses
import math
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from benchmarks.simulated_series import BLOCKS, SimulatedSeries
from farm.decision.history import SeriesHistory
from farm.decision.judgement import Judgement, OnsetTest, Verdict
from farm.decision.regression import needs_twin
from farm.decision.rules import RULES
from farm.decision.timed import TimedTest, TwinEvidence
from farm.rows.series import Metric

SIGNS = {Verdict.REGRESSION: 1, Verdict.IMPROVEMENT: -1}
BASELINE_NIGHTS = 7
# Perfherder (Mozilla's performance alerts): means of 12 nights before and 12 from the night on, t above 7, 2 % or more.
PERFHERDER_WINDOW, PERFHERDER_T, PERFHERDER_PERCENT = 12, 7.0, 2.0
# E-divisive (D. Matteson and N. James, JASA 109, 2014): windows of the last nights, permutation test.
DIVISIVE_WINDOW, DIVISIVE_LEAST, DIVISIVE_PERMUTATIONS, DIVISIVE_P = 60, 3, 199, 0.01

Array = npt.NDArray[np.float64]
Rule = Callable[[Array], list["Alarm"]]


@dataclasses.dataclass(frozen=True)
class Alarm:
    """What a rule says of a night: 1 slower, -1 faster, 0 nothing.

    `provisional`: told, but not as certain; `again`: how often the whole night was measured again, parts counted.
    """

    alarm: int = 0
    provisional: bool = False
    again: float = 0.0


class FarmUnit:
    """A unit's nights, judged one after another; re-runs are made as they are asked for."""

    def __init__(self, series: SimulatedSeries) -> None:
        self._series, self._known, self._point = series, SeriesHistory(), series.night(0)
        self._test: TimedTest | None = None

    def branched(self, series: SimulatedSeries) -> FarmUnit:
        """A unit with the same past, whose nights to come are those of another series."""
        branch = copy.copy(self)
        branch._series = series
        return branch

    def glance(self, number: int) -> None:
        """The night as it was measured first, without a judgement."""
        self._point = self._series.night(number)
        self._test = self._tested() if self._point.runs else None

    def measure(self, number: int) -> Judgement | None:
        """Tonight's judgement without the twin's evidence; None where the night has no figure."""
        self._point = self._series.night(number)
        if self._known.points and self._known.points[-1].identity != self._point.identity:
            self._known = SeriesHistory()
        if not self._point.runs:
            self._test = None
            return None
        self._test = self._tested()
        judgement = self._test.judge()
        while judgement.more:
            self._point = self._series.again(self._point, judgement.more)
            self._test = self._tested()
            judgement = self._test.judge()
        return judgement

    def _tested(self) -> TimedTest:
        return TimedTest(self._known, self._point, Metric.LATENCY, RULES)

    def judged_with(self, own: Judgement, twin: FarmUnit, others: Sequence[FarmUnit]) -> Judgement:
        """Tonight's judgement with the twin's evidence, and what the room's other units know.

        They can only deny what the twin confirms, and are asked for nothing else.
        """
        looks = twin.looks
        if self._test is None or not looks or not needs_twin(own):
            return own
        evidence = TwinEvidence(looks)
        if any(evidence.shows(look, RULES) for look in own.looks):
            evidence = TwinEvidence(looks, tuple(seen for each in others if (seen := each.looks)))
        return self._test.with_twin(evidence).judge()

    @property
    def looks(self) -> tuple[OnsetTest, ...]:
        """What tonight's measurements say of each possible onset."""
        return self._test.looks if self._test else ()

    def alarm(self, judgement: Judgement | None) -> Alarm:
        """The alarm that a judgement raises."""
        verdict = judgement.verdict if judgement else Verdict.SPOILED
        return Alarm(SIGNS.get(verdict, 0), verdict.is_provisional, self._point.reruns / BLOCKS)

    def end(self) -> None:
        """Adds tonight to the history."""
        self._known = self._known.with_night(self._point)


def farm_rule(
    pair: Sequence[SimulatedSeries], others: Sequence[SimulatedSeries] = ()
) -> tuple[list[list[Alarm]], list[list[Alarm]]]:
    """The decision on two units of one SoC, night by night: each by itself, and each with the other's word.

    Args:
        others: units of other kinds in the same room.
    """
    units, witnesses = ([FarmUnit(series) for series in each] for each in (pair, others))
    alone: list[list[Alarm]] = [[] for _ in units]
    twinned: list[list[Alarm]] = [[] for _ in units]
    for number in range(pair[0].nights):
        judgements = [unit.measure(number) for unit in units]
        for witness in witnesses:
            witness.glance(number)
        for place, (unit, own, other) in enumerate(zip(units, judgements, units[::-1], strict=True)):
            alone[place].append(unit.alarm(own))
            twinned[place].append(unit.alarm(own and unit.judged_with(own, other, witnesses)))
        for unit in (*units, *witnesses):
            unit.end()
    return alone, twinned


def fixed_rule(percent: float) -> Rule:
    """Tonight against the median of the last seven nights, by a fixed threshold; the device state is not looked at."""

    def rule(values: Array) -> list[Alarm]:
        alarms = []
        for number, value in enumerate(values):
            before = values[max(0, number - BASELINE_NIGHTS) : number]
            change = 100 * (value / np.median(before) - 1) if len(before) else 0.0
            alarms.append(Alarm(int(np.sign(change)) if abs(change) >= percent else 0))
        return alarms

    return rule


def perfherder_rule(values: Array) -> list[Alarm]:
    """The night that the t statistic points at is told twelve nights later, when the later window is full."""
    window, alarms = PERFHERDER_WINDOW, [Alarm()] * len(values)
    last = -window
    for number in range(2 * window - 1, len(values)):
        middle = number - window + 1
        before, after = values[middle - window : middle], values[middle : number + 1]
        error = math.sqrt((before.var(ddof=1) + after.var(ddof=1)) / window)
        change = after.mean() - before.mean()
        is_alarm = abs(change) > PERFHERDER_T * error and abs(change) >= PERFHERDER_PERCENT / 100 * before.mean()
        if is_alarm and number - last >= window:
            alarms[number], last = Alarm(int(np.sign(change))), number
    return alarms


def divisive_rule(values: Array) -> list[Alarm]:
    """E-divisive on the last nights, each night; a change point that was not there before is an alarm."""
    values = np.log(values)
    random = np.random.default_rng(len(values))
    start, alarms = 0, [Alarm()] * len(values)
    for number in range(2 * DIVISIVE_LEAST, len(values)):
        part = values[max(start, number + 1 - DIVISIVE_WINDOW) : number + 1]
        at = _divided(part, random) if len(part) >= 2 * DIVISIVE_LEAST else None
        if at is not None:
            alarms[number] = Alarm(int(np.sign(part[at:].mean() - part[:at].mean())))
            start = number + 1 - len(part) + at
    return alarms


def _divided(values: Array, random: np.random.Generator) -> int | None:
    """The change point of some values, if a permutation of them seldom has one as clear."""
    at, energy = _energy(values)
    beyond = sum(_energy(random.permutation(values))[1] >= energy for _ in range(19))
    if beyond > 1:  # hopeless: the whole number of permutations would say the same
        return None
    beyond += sum(_energy(random.permutation(values))[1] >= energy for _ in range(DIVISIVE_PERMUTATIONS - 19))
    return at if (beyond + 1) / (DIVISIVE_PERMUTATIONS + 1) <= DIVISIVE_P else None


def _energy(values: Array) -> tuple[int, float]:
    """The split with the largest scaled energy distance, and that distance."""
    distances = np.abs(np.subtract.outer(values, values))
    total = distances.cumsum(axis=0).cumsum(axis=1)
    sizes = np.arange(DIVISIVE_LEAST, len(values) - DIVISIVE_LEAST + 1)
    inner = total[sizes - 1, sizes - 1]
    cross = total[sizes - 1, -1] - inner
    outer = total[-1, -1] - 2 * cross - inner
    rest = len(values) - sizes
    energy = 2 * cross / (sizes * rest) - inner / sizes**2 - outer / rest**2
    scaled = energy * sizes * rest / len(values)
    best = int(np.argmax(scaled))
    return int(sizes[best]), float(scaled[best])


OTHERS: dict[str, Rule] = {
    "fixed 5 %": fixed_rule(5),
    "fixed 10 %": fixed_rule(10),
    "t rule (Perfherder's)": perfherder_rule,
    "E-divisive": divisive_rule,
}
