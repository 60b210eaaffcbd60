"""What each rule says of a world's series: false alarms, steps, changes and what duets cost. One task is one world."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from benchmarks.simulated_series import CHANGE_AT, Scenario, SimulatedSeries, World
from benchmarks.worlds.unit_pair import ALONE, DUET, DUET_TWIN, TWIN, Signs, UnitPair

RULES = (DUET, DUET_TWIN, ALONE, TWIN)
YEAR, WEEK = 365, 7
YOUNG_STEP = 10  # the night of a step in short series
SIZES = (0.10, 0.05)
OTHER_UNITS = 2
RAMP = Scenario(drift=0.10, drift_nights=30)
AFTER = 4  # nights of a step that are simulated: one may be without a figure

NONE = (0, 0, 0)


@dataclasses.dataclass
class Count:
    """What a rule said in all."""

    alarms: int = 0
    years: float = 0.0
    steps: dict[float, list[int]] = dataclasses.field(default_factory=dict)  # first night, within three, of so many
    change: list[int] = dataclasses.field(default_factory=lambda: [0, 0])  # ramps seen before their end, of so many
    duets: float = 0.0  # blocks that duets took while nothing changed, of so many
    blocks: float = 0.0

    def __add__(self, other: Count) -> Count:
        """Of both."""
        steps = {
            size: [
                one + more for one, more in zip(self.steps.get(size, NONE), other.steps.get(size, NONE), strict=True)
            ]
            for size in self.steps | other.steps
        }
        change = [one + more for one, more in zip(self.change, other.change, strict=True)]
        return Count(
            *(self.alarms + other.alarms, self.years + other.years, steps, change),
            *(self.duets + other.duets, self.blocks + other.blocks),
        )


def measure(world: World, years: int, seed: int) -> dict[str, Count]:
    """The counts of all rules in so many series-years that do not change, with steps and ramps beside them."""
    counts = {name: Count() for name in RULES}
    _units(world, years, seed, counts)
    return counts


def false_alarms(signs: Sequence[int]) -> int:
    """Those within a week of another count once with it."""
    count, last = 0, -WEEK
    for number in np.flatnonzero(signs).tolist():
        count += number - last >= WEEK
        last = number
    return count


def _units(world: World, years: int, seed: int, counts: dict[str, Count]) -> None:
    """Pairs of units that do not change; from some of their nights on, what would have changed is simulated beside."""
    for each in range(seed, seed + _series(world, (years + 1) // 2)):
        units = _unit_pair(world, each)
        told: dict[str, list[Signs]] = {rule: [[], []] for rule in RULES}
        for number in range(world.length):
            if number in _step_nights(world):
                _changes(units, number, each, counts)
            for rule, signs in units.night(number).items():
                for place, sign in enumerate(signs):
                    told[rule][place].append(sign)
        for rule, series in told.items():
            for signs in series:
                _quiet(counts[rule], signs)
        for rule in (DUET, DUET_TWIN):
            duets, blocks = units.spent(rule)
            counts[rule].duets += duets
            counts[rule].blocks += blocks


def _unit_pair(world: World, seed: int) -> UnitPair:
    series = [SimulatedSeries(world, Scenario(), seed, unit, world.length) for unit in range(2 + OTHER_UNITS)]
    return UnitPair(series[:2], series[2:])


def _step_nights(world: World) -> range:
    return range(CHANGE_AT, world.length - RAMP.drift_nights, CHANGE_AT) or range(YOUNG_STEP, YOUNG_STEP + 1)


def _changes(units: UnitPair, at: int, seed: int, counts: dict[str, Count]) -> None:
    """Steps of each size, and once a ramp, that begin tonight."""
    up = (seed + at // CHANGE_AT) % 2
    for size in SIZES:
        scenario = Scenario(step=size if up else -size, at=at)
        for rule, both in _followed(units, scenario, AFTER).items():
            for signs in both:
                _seen(counts[rule], size, [sign * scenario.step > 0 for sign in signs])
    if at == CHANGE_AT:
        for rule, both in _followed(units, RAMP, RAMP.drift_nights).items():
            for signs in both:
                _ramp(counts[rule], signs)


def _followed(units: UnitPair, scenario: Scenario, nights: int) -> dict[str, list[Signs]]:
    """What each rule tells in the nights after a change, of each unit; nights without a figure are left out."""
    branch = units.branched(scenario)
    told: dict[str, list[Signs]] = {rule: [[], []] for rule in RULES}
    for number in range(scenario.at, scenario.at + nights):
        has = branch.has(number)
        for rule, signs in branch.night(number).items():
            for place in (place for place in range(2) if has[place]):
                told[rule][place].append(signs[place])
    return told


def _series(world: World, years: int) -> int:
    """So many series make up these years."""
    return -(-years * YEAR // world.length)


def _quiet(count: Count, signs: Sequence[int]) -> None:
    count.alarms += false_alarms(signs)
    count.years += len(signs) / YEAR


def _seen(count: Count, size: float, told: Sequence[bool]) -> None:
    """Whether a step was told in its first night, and within three."""
    seen = count.steps.setdefault(size, [0, 0, 0])
    seen[0] += any(told[:1])
    seen[1] += any(told[:3])
    seen[2] += 1


def _ramp(count: Count, signs: Sequence[int]) -> None:
    """Of the nights that it takes."""
    count.change[0] += any(sign > 0 for sign in signs)
    count.change[1] += 1
