"""What each rule says of a world's series: false alarms, steps, changes and what duets cost. One task is one world."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import numpy as np

from benchmarks.detection_rules import OTHERS, Alarm, Array, FarmUnit, farm_rule
from benchmarks.duets import DuetLedger, MeasurePairs
from benchmarks.otava_rule import ask
from benchmarks.simulated_series import CHANGE_AT, Scenario, SimulatedSeries, World
from farm.decision.judgement import Judgement
from farm.decision.regression import needs_twin, twin_evidence

EARLIER, EARLIER_TWIN = "earlier, alone", "earlier, twin"
ALONE, TWIN = "history alone", "history, twin"
DUET, DUET_TWIN = "with duets, alone", "with duets, twin"
FIXED, DIVISIVE, OTAVA = "fixed 10 %", "E-divisive", "apache-otava"
RULES = (DUET, DUET_TWIN, ALONE, TWIN, EARLIER, EARLIER_TWIN, FIXED, DIVISIVE, OTAVA)
YEAR, WEEK = 365, 7
YOUNG_STEP = 10  # the night of a step in short series
SIZES = (0.10, 0.05)
OTHER_UNITS = 2
RAMP = Scenario(drift=0.10, drift_nights=30)
AFTER = 4  # nights of a step that are simulated: one may be without a figure

NONE = (0, 0, 0)

Signs = list[int]
Rule = Callable[[int, World, Scenario, int], list[Signs]]  # of the series of a seed


@dataclasses.dataclass(frozen=True)
class Volume:
    """How much is simulated of a world: series-years that do not change, series with a step of each size."""

    duet_years: int
    duet_series: int
    years: int
    series: int
    slow_years: int
    slow_series: int
    otava: str


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


def measure(world: World, volume: Volume, seed: int) -> dict[str, Count]:
    """The counts of all rules."""
    counts = {name: Count() for name in RULES}
    _farm(world, volume, seed, counts)
    _plain(world, volume, seed, counts)
    _duets(world, volume, seed, counts)
    return counts


def false_alarms(signs: Sequence[int]) -> int:
    """Those within a week of another count once with it."""
    count, last = 0, -WEEK
    for number in np.flatnonzero(signs).tolist():
        count += number - last >= WEEK
        last = number
    return count


def step_of(world: World, size: float, seed: int) -> Scenario:
    """Up and down in turns."""
    return Scenario(step=size if seed % 2 else -size, at=YOUNG_STEP if world.length < CHANGE_AT else CHANGE_AT)


def _duets(world: World, volume: Volume, seed: int, counts: dict[str, Count]) -> None:
    for each in range(seed, seed + _series(world, (volume.duet_years + 1) // 2)):
        for name, signs, ledger in _duet_nights(_pair(world, Scenario(), each, world.length)):
            _quiet(counts[name], signs)
            counts[name].duets += ledger.counts["quiet_duets"]
            counts[name].blocks += ledger.counts["busy"]
    for size in SIZES:
        for each in range(seed, seed + (volume.duet_series + 1) // 2):
            scenario = step_of(world, size, each)
            pair = _pair(world, scenario, each + 500_000, scenario.at + AFTER)
            for place, (name, signs, _) in enumerate(_duet_nights(pair)):
                _stepped(counts[name], size, scenario, signs, pair[place % 2])
    for each in range(seed, seed + volume.duet_series // 2 if world.length >= CHANGE_AT else seed):
        for name, signs, _ in _duet_nights(_pair(world, RAMP, each + 700_000, CHANGE_AT + RAMP.drift_nights)):
            _ramp(counts[name], signs)


def _pair(world: World, scenario: Scenario, seed: int, nights: int) -> list[SimulatedSeries]:
    return [SimulatedSeries(world, scenario, seed, unit, nights) for unit in range(2)]


def _duet_nights(pair: Sequence[SimulatedSeries]) -> list[tuple[str, Signs, DuetLedger]]:
    """Each unit of a pair by itself, then each with the other's word: what its nights told, and spent."""
    units = [FarmUnit(series) for series in pair]
    ledgers = [DuetLedger(_pairs_of(series)) for series in (*pair, *pair)]
    signs: list[Signs] = [[] for _ in ledgers]
    for number in range(pair[0].nights):
        own = [unit.measure(number) for unit in units]
        again = [unit.alarm(judgement).again for unit, judgement in zip(units, own, strict=True)]
        joint = [*own, *(_joint(unit, *both) for unit, both in zip(units, (own, own[::-1]), strict=True))]
        for place, ledger in enumerate(ledgers):
            told = ledger.night(number, own[place % 2], joint[place], again[place % 2])
            signs[place].append(told.alarm)
        for unit in units:
            unit.end()
    return list(zip((DUET, DUET, DUET_TWIN, DUET_TWIN), signs, ledgers, strict=True))


def _joint(unit: FarmUnit, own: Judgement | None, other: Judgement | None) -> Judgement | None:
    """A unit's judgement with its twin's evidence."""
    if own is None or other is None or not needs_twin(own):
        return own
    return unit.judge(twin_evidence(other))


def _pairs_of(series: SimulatedSeries) -> MeasurePairs:
    return lambda number, against, count: [(1.0, ratio) for ratio in series.duet(number, against, count).tolist()]


def _farm(world: World, volume: Volume, seed: int, counts: dict[str, Count]) -> None:
    for names, is_earlier in (((ALONE, TWIN), False), ((EARLIER, EARLIER_TWIN), True)):
        for each in range(seed, seed + _series(world, (volume.years + 1) // 2)):
            for name, both in zip(names, _judged(world, Scenario(), each, world.length, is_earlier), strict=True):
                for signs in both:
                    _quiet(counts[name], signs)
        for size in SIZES:
            for each in range(seed, seed + (volume.series + 1) // 2):
                scenario = step_of(world, size, each)
                nights = scenario.at + AFTER
                judged = _judged(world, scenario, each + 500_000, nights, is_earlier)
                for name, both in zip(names, judged, strict=True):
                    for unit, signs in enumerate(both):
                        series = SimulatedSeries(world, scenario, each + 500_000, unit, nights)
                        _stepped(counts[name], size, scenario, signs, series)


def _judged(
    world: World, scenario: Scenario, seed: int, nights: int, is_earlier: bool
) -> tuple[list[Signs], list[Signs]]:
    pair = [SimulatedSeries(world, scenario, seed, unit, nights) for unit in range(2)]
    others = [SimulatedSeries(world, Scenario(), seed, 2 + unit, nights) for unit in range(OTHER_UNITS)]
    alone, twinned = farm_rule(pair, [] if is_earlier else others, is_earlier)
    return _signs(alone), _signs(twinned)


def _signs(series: Sequence[Sequence[Alarm]]) -> list[Signs]:
    return [[night.alarm for night in nights] for nights in series]


def _plain(world: World, volume: Volume, seed: int, counts: dict[str, Count]) -> None:
    """Rules that see one figure a night, whatever the device state."""
    rules: dict[str, tuple[Callable[[Sequence[Array], int], list[Signs] | None], int, int]] = {
        FIXED: (lambda series, _: _signs([OTHERS[FIXED](values) for values in series]), *_most(volume)),
        DIVISIVE: (
            lambda series, _: _signs([OTHERS[DIVISIVE](values) for values in series]),
            volume.slow_years,
            volume.slow_series,
        ),
        OTAVA: (
            lambda series, begin: ask(volume.otava, [(list(map(float, values)), begin) for values in series]),
            volume.slow_years,
            volume.slow_series,
        ),
    }
    for name, (rule, years, steps) in rules.items():
        quiet = [
            SimulatedSeries(world, Scenario(), seed + each, 0, world.length) for each in range(_series(world, years))
        ]
        found = rule([series.values() for series in quiet], 0)
        if found is None:
            continue
        for signs in found:
            _quiet(counts[name], signs)
        for size in SIZES:
            _plain_steps(world, size, range(seed, seed + steps), counts[name], rule)


def _plain_steps(
    world: World,
    size: float,
    seeds: Sequence[int],
    count: Count,
    rule: Callable[[Sequence[Array], int], list[Signs] | None],
) -> None:
    scenarios = [step_of(world, size, each) for each in seeds]
    series = [
        SimulatedSeries(world, scenario, each + 500_000, 0, scenario.at + AFTER)
        for each, scenario in zip(seeds, scenarios, strict=True)
    ]
    found = rule([each.values() for each in series], scenarios[0].at - 1 if scenarios else 0) or []
    for scenario, signs, each in zip(scenarios, found, series, strict=True):
        _stepped(count, size, scenario, signs, each)


def _most(volume: Volume) -> tuple[int, int]:
    return volume.duet_years, volume.duet_series


def _series(world: World, years: int) -> int:
    """So many series make up these years."""
    return -(-years * YEAR // world.length)


def _quiet(count: Count, signs: Sequence[int]) -> None:
    count.alarms += false_alarms(signs)
    count.years += len(signs) / YEAR


def _stepped(count: Count, size: float, scenario: Scenario, signs: Sequence[int], series: SimulatedSeries) -> None:
    """Nights without a figure do not count."""
    told = [sign * scenario.step > 0 for night, sign in enumerate(signs) if night >= scenario.at and series.has(night)]
    seen = count.steps.setdefault(size, [0, 0, 0])
    seen[0] += any(told[:1])
    seen[1] += any(told[:3])
    seen[2] += 1


def _ramp(count: Count, signs: Sequence[int]) -> None:
    count.change[0] += any(sign > 0 for sign in signs[CHANGE_AT:])
    count.change[1] += 1
