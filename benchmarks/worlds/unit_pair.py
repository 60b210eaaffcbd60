"""Two units of one SoC in a world, night by night: what history and duets say of each, alone and with the other."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.duets import DuetLedger, MeasurePairs
from benchmarks.farm_units import FarmUnit
from benchmarks.simulated_series import Scenario, SimulatedSeries

ALONE, TWIN = "history alone", "history, twin"
DUET, DUET_TWIN = "with duets, alone", "with duets, twin"
Signs = list[int]


class UnitPair:
    """The units' histories and duets; one simulated night serves all four rules.

    Args:
        pair: the two units' series.
        witnesses: series of units of other kinds in the same room.
    """

    def __init__(self, pair: Sequence[SimulatedSeries], witnesses: Sequence[SimulatedSeries]) -> None:
        self._pair, self._rooms = pair, witnesses
        self._units, self._witnesses = [FarmUnit(each) for each in pair], [FarmUnit(each) for each in witnesses]
        self._ledgers = {name: [DuetLedger(_pairs_of(each), each.build) for each in pair] for name in (DUET, DUET_TWIN)}

    def branched(self, scenario: Scenario) -> UnitPair:
        """Both with their past, and another scenario from now on."""
        branch = UnitPair(*([each.branched(scenario) for each in part] for part in (self._pair, self._rooms)))
        for units, series, past in (
            (branch._units, branch._pair, self._units),
            (branch._witnesses, branch._rooms, self._witnesses),
        ):
            units[:] = [unit.branched(each) for unit, each in zip(past, series, strict=True)]
        branch._ledgers = {
            name: [ledger.branched(_pairs_of(each)) for ledger, each in zip(ledgers, branch._pair, strict=True)]
            for name, ledgers in self._ledgers.items()
        }
        return branch

    def has(self, number: int) -> list[bool]:
        """Which of the units has a figure in a night."""
        return [each.has(number) for each in self._pair]

    def spent(self, rule: str) -> tuple[float, float]:
        """Blocks of duets that found no change, and of the nights, of both units."""
        counts = [ledger.counts for ledger in self._ledgers[rule]]
        return sum(each["quiet_duets"] for each in counts), sum(each["busy"] for each in counts)

    def night(self, number: int) -> dict[str, Signs]:
        """The alarms of a night, by rule, of each unit."""
        own = [unit.measure(number) for unit in self._units]
        again = [unit.alarm(judgement).again for unit, judgement in zip(self._units, own, strict=True)]
        for witness in self._witnesses:
            witness.glance(number)
        joint = [
            judgement and unit.judged_with(judgement, twin, self._witnesses)
            for unit, twin, judgement in zip(self._units, self._units[::-1], own, strict=True)
        ]
        signs = {
            ALONE: [unit.alarm(each).alarm for unit, each in zip(self._units, own, strict=True)],
            TWIN: [unit.alarm(each).alarm for unit, each in zip(self._units, joint, strict=True)],
        }
        for name, told in ((DUET, own), (DUET_TWIN, joint)):
            nights = zip(self._ledgers[name], own, told, again, strict=True)
            signs[name] = [ledger.night(number, alone, both, more).alarm for ledger, alone, both, more in nights]
        for unit in (*self._units, *self._witnesses):
            unit.end()
        return signs


def _pairs_of(series: SimulatedSeries) -> MeasurePairs:
    return lambda number, against, count: [(1.0, ratio) for ratio in series.duet(number, against, count).tolist()]
