"""The decision on simulated units, night by night: which nights raise an alarm."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Sequence

from benchmarks.simulated_series import BLOCKS, SimulatedSeries
from farm.decision.history import SeriesHistory
from farm.decision.judgement import Judgement, OnsetTest, Verdict
from farm.decision.regression import needs_twin
from farm.decision.rules import RULES
from farm.decision.timed import TimedTest, TwinEvidence
from farm.rows.series import Metric

SIGNS = {Verdict.REGRESSION: 1, Verdict.IMPROVEMENT: -1}


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

    def _tested(self, twin: TwinEvidence | None = None, final: bool = False) -> TimedTest:
        return TimedTest(self._known, self._point, Metric.LATENCY, RULES, twin, final)

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
        return self._tested(evidence, final=True).judge()

    @property
    def looks(self) -> tuple[OnsetTest, ...]:
        """What tonight's measurements say of each possible onset."""
        return self._test.looks if self._test else ()

    def alarm(self, judgement: Judgement | None) -> Alarm:
        """The alarm that a judgement raises."""
        verdict = judgement.verdict if judgement else Verdict.SPOILED
        return Alarm(SIGNS.get(verdict, 0), verdict.name.startswith("PROVISIONAL"), self._point.reruns / BLOCKS)

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
