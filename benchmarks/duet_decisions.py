"""Measures what duets add to the decision on one phone alone: false software alarms, steps and ramps seen, and cost.

    python benchmarks/duet_decisions.py [--years 100] [--series 200] [--seed 1] [--quick]

A series is simulated (simulated_series.py), with levels of its environment that no software made: clock states that
stick for nights, reboots that move the level, hot nights. The scenario's steps and ramps are those of the software.
Each night the decision judges the series by the nights before, and duets are made as `farm nightly` makes them: of what
looks changed, and by the calendar as far as the allowance goes (duets.py). A pair's two processes differ by noise of
their own, with the given spread each; a clock state that is drawn for every process is the worst that a unit can do.
"Level moves" are the nights on which the nights before alone would have told a change.
"""

from __future__ import annotations

import dataclasses
import multiprocessing
import sys
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import click
import numpy as np
import numpy.typing as npt

sys.path.insert(0, str(Path(__file__).parents[1]))  # the folder of a script is searched for imports, the tree is not

from benchmarks.decisions import alarms, rate, share
from benchmarks.detection_rules import Alarm, FarmUnit
from benchmarks.duets import Counts, DuetLedger
from benchmarks.simulated_series import CHANGE_AT, NIGHTS, NOISY, PHONE, QUIET, Scenario, SimulatedSeries, World
from farm.tables.table import Table, show

PROCESSES = 2
AFTER = 14
RAMP_NIGHTS = 30
RAMP = Scenario("10 % within 30 nights", drift=0.10, drift_nights=RAMP_NIGHTS)
STATE = 0.15  # how far apart two clock states are

Array = npt.NDArray[np.float64]
Draw = Callable[[np.random.Generator, int], Array]


@dataclasses.dataclass(frozen=True)
class DuetWorld:
    """A world of nights, what else moves its level from night to night, and the noise of a process."""

    name: str
    nights: World
    process: Draw
    environment: Draw = lambda random, nights: np.zeros(nights)


def _gaussian(spread: float) -> Draw:
    return lambda random, count: random.normal(0, spread, count)


def _student(spread: float) -> Draw:
    return lambda random, count: np.asarray(spread * random.standard_t(3, count), np.float64)


def _states(share_slow: float, spread: float) -> Draw:
    """A clock state that is drawn for every process."""
    return lambda random, count: STATE * (random.random(count) < share_slow) + random.normal(0, spread, count)


def _reboots(random: np.random.Generator, nights: int) -> Array:
    """Levels of 2 % that a reboot draws, one in 14 nights."""
    epochs = np.cumsum(random.random(nights) < 1 / 14)
    return np.asarray(random.normal(0, 0.02, nights)[epochs])


def _sticky(random: np.random.Generator, nights: int) -> Array:
    """Two clock states, each for about ten nights."""
    return np.asarray(STATE * (np.cumsum(random.random(nights) < 0.1) % 2), np.float64)


def _growing(random: np.random.Generator, nights: int) -> Array:
    """Noise of the nights that grows fivefold in a year."""
    return np.asarray(random.normal(0, 0.01, nights) * np.linspace(1, 5, nights))


WORLDS = (
    DuetWorld("1 % noise", QUIET, _gaussian(0.01)),
    DuetWorld("3 % noise", NOISY, _gaussian(0.02)),
    DuetWorld("phone-like", PHONE, _gaussian(0.01)),
    DuetWorld("Student t(3) processes", QUIET, _student(0.01)),
    DuetWorld("reboots move the level", PHONE, _gaussian(0.01), _reboots),
    DuetWorld("sticky clock states", QUIET, _gaussian(0.01), _sticky),
    DuetWorld("noise x5 in a year", QUIET, _gaussian(0.01), _growing),
    DuetWorld("a clock state a process (half slow)", QUIET, _states(0.5, 0.01)),
)


class EnvironmentSeries(SimulatedSeries):
    """A series whose level is moved by what is no software, too."""

    def __init__(self, world: DuetWorld, scenario: Scenario, seed: int, nights: int) -> None:
        super().__init__(world.nights, scenario, seed, 0, nights)
        self._level = self._level + world.environment(np.random.default_rng([seed, 7]), nights)


class DuetUnit:
    """One phone's nights with duets, whose processes have noise of their own."""

    def __init__(self, world: DuetWorld, scenario: Scenario, seed: int, nights: int) -> None:
        self._farm = FarmUnit(EnvironmentSeries(world, scenario, seed, nights))
        self._software = np.log(scenario.level(nights))
        self._process, self._random = world.process, np.random.default_rng([seed, 9])
        self._ledger = DuetLedger(self._pairs)
        self.moves = 0

    @property
    def counts(self) -> Counts:
        """The figures that a task counts."""
        return {**self._ledger.counts, "moves": self.moves}

    def night(self, number: int) -> Alarm:
        """One night: blocks, duets, verdict."""
        judgement = self._farm.measure(number)
        alone = self._farm.alarm(judgement)
        self.moves += bool(alone.alarm)
        told = self._ledger.night(number, judgement, judgement, alone.again)
        self._farm.end()
        return told

    def _pairs(self, number: int, against: int, count: int) -> list[tuple[float, float]]:
        before = self._software[against] + self._process(self._random, count)
        tonight = self._software[number] + self._process(self._random, count)
        return list(zip(np.exp(before).tolist(), np.exp(tonight).tolist(), strict=True))


@dataclasses.dataclass(frozen=True)
class DuetTask:
    """One series of a world."""

    world: int
    scenario: Scenario
    nights: int
    seed: int


def simulated_duets(task: DuetTask) -> Mapping[str, float]:
    """Counts of one series."""
    unit = DuetUnit(WORLDS[task.world], task.scenario, task.seed, task.nights)
    told = [unit.night(number) for number in range(task.nights)]
    sign = -1 if task.scenario.step < 0 else 1
    since = [night.alarm == sign for night in told[task.scenario.at :]]
    seen = {"first": any(since[:1]), "three": any(since[:3]), "ramp": any(since[:RAMP_NIGHTS])}
    return {**unit.counts, **seen, "alarms": alarms(told)}


def _all_of(tasks: Sequence[DuetTask]) -> Counts:
    total: Counts = defaultdict(float)
    with multiprocessing.get_context("spawn").Pool(PROCESSES) as pool:
        for counts in pool.imap_unordered(simulated_duets, tasks, chunksize=2):
            for name, count in counts.items():
                total[name] += count
    return total


def _cells(number: int, years: int, series: int, seed: int) -> list[str]:
    def made(scenario: Scenario, nights: int, count: int, part: int) -> Counts:
        first = seed * 10_000_000 + number * 1_000_000 + part * 10_000
        return _all_of([DuetTask(number, scenario, nights, first + each) for each in range(count)])

    quiet = made(Scenario(), NIGHTS, years, 0)
    ten = made(Scenario(step=0.10), CHANGE_AT + AFTER, series, 1)
    five = made(Scenario(step=0.05), CHANGE_AT + AFTER, series, 2)
    ramp = made(RAMP, CHANGE_AT + RAMP_NIGHTS + 1, series, 3)
    in_years = quiet["nights"] / NIGHTS
    return [
        WORLDS[number].name,
        rate(quiet["alarms"], in_years),
        f"{quiet['moves'] / in_years:.1f}",
        share(ten["first"], series),
        share(five["three"], series),
        share(ramp["ramp"], series),
        f"{100 * quiet['quiet_duets'] / quiet['busy']:.1f}",
    ]


COLUMNS = (
    "World",
    "False software alarms/series-year",
    "Level moves/series-year",
    "10 %, first night (%)",
    "5 %, three nights (%)",
    "Ramp before its end (%)",
    "Duets/blocks (%)",
)


@click.command()
@click.option("--years", type=click.IntRange(2), default=100, show_default=True, help="Series-years without a change.")
@click.option("--series", type=click.IntRange(2), default=200, show_default=True, help="Series with a change, each.")
@click.option("--world", "named", type=click.Choice([world.name for world in WORLDS]), multiple=True)
@click.option("--seed", type=int, default=1, show_default=True)
@click.option("--quick", is_flag=True, help="Few series: whether it works, not how well.")
def main(years: int, series: int, named: Sequence[str], seed: int, quick: bool) -> None:
    """A phone alone with duets, on simulated series."""
    years, series = (2, 4) if quick else (years, series)
    for number, world in enumerate(WORLDS):
        if not named or world.name in named:
            show([Table("", COLUMNS, [_cells(number, years, series, seed)], frozenset({"World"}))])


if __name__ == "__main__":
    main()
