"""Simulated series of nightly latencies, with the true changes known.

A night is measured in six blocks, three under each label of the A/A control. A world's `noise` is the standard
deviation of a night's figure, the mean of its six blocks, so that a block's is sqrt(6) times as large. Blocks measured
again are as noisy, independent, and share all that is the night's own:

- drift: a deviation from night to night, AR(1), given by its stationary standard deviation and its coefficient;
- hot nights: the unit is slower by 8 to 25 % for the whole night; nine in ten show in the device state, which spoils
  all blocks of the night, one in ten does not.

Blocks may have other noise than a normal one, nights other effects (`benchmarks/worlds/`), of a unit's own or shared by
all units of the room. A duet runs two versions of the software in turns, a fresh process each: what is the night's own
cancels, the noise of blocks stays.

What happens to a series (`Scenario`): steps and slow drifts of its level, which are true changes; odd blocks, odd
first measurements and odd nights, which are not; the exchange of the unit for another, which begins the series anew.
Two units of one SoC share the scenario's changes; their noise, drifts and hot nights are their own.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable

import numpy as np

from benchmarks.worlds.nights import Array, NightEffect, Shape, autoregressive, gaussian, nothing
from farm.rows.series import Point, trimmed_mean

BLOCKS = 6
NIGHTS = 365
CHANGE_AT = 60
HOT_LOW, HOT_HIGH = 0.08, 0.25
SPIKE = 2.0
BASE_MS = 10.0
YEAR = 365
BUILD = 1  # of the random numbers of what a build does on a unit
ROOM = 99  # no unit has this number: the random numbers of what all units share


@dataclasses.dataclass(frozen=True)
class World:
    """How a series varies when nothing changes; shares, not percent.

    Attributes:
        noise: the scale of a night's figure by its blocks.
        blocks: the noise of blocks of a scale.
        nights: effects of nights, of each unit its own; `room`: of all units together; `builds`: of the build of
            equal sources that a night runs, on each unit its own.
        grown: by what factor blocks and nights vary more after a year, growing steadily.
        later: by how much blocks that are measured again are slower.
        timer_ms: the clock's resolution; 0: as fine as can be. `base_ms`: bounds of a series' level.
        missing: share of nights without a figure.
        length: nights of a series.
    """

    name: str
    noise: float
    drift: float = 0.0
    coefficient: float = 0.0
    hot: float = 0.0
    shown: float = 0.9
    passive: bool = False
    blocks: Callable[[np.random.Generator, Shape, float], Array] = gaussian
    nights: NightEffect = nothing
    room: NightEffect = nothing
    builds: NightEffect = nothing
    grown: float = 1.0
    later: float = 0.0
    timer_ms: float = 0.0
    base_ms: tuple[float, float] = (BASE_MS, BASE_MS)
    missing: float = 0.0
    length: int = NIGHTS


QUIET = World("1 % noise", 0.01)
NOISY = World("3 % noise", 0.03)
PHONE = World("phone-like", 0.01, drift=0.012, coefficient=0.6, hot=0.03, passive=True)
WORLDS = (QUIET, NOISY, PHONE)


@dataclasses.dataclass(frozen=True)
class Scenario:
    """What happens to a series.

    Attributes:
        step: share by which the level moves in the night `at`.
        drift: share by which it moves bit by bit in `drift_nights` from `at` on.
        swap: share by which another unit's level differs, which takes this one's place in the night `at`.
        spikes: share of nights with one block twice as slow.
        bursts: share of nights whose first measurement is 8 to 25 % slower as a whole; further blocks are not.
        slow_nights: share of nights that are 8 to 25 % slower for reasons outside, further blocks included.
        lasting: nights after which the step is undone; 0: never.
        second: nights after which the same step comes once more; 0: never.
    """

    name: str = "no change"
    step: float = 0.0
    drift: float = 0.0
    swap: float = 0.0
    spikes: float = 0.0
    bursts: float = 0.0
    slow_nights: float = 0.0
    at: int = CHANGE_AT
    drift_nights: int = 60
    lasting: int = 0
    second: int = 0

    def level(self, nights: int) -> Array:
        """Factor of each night's level."""
        number = np.arange(nights)
        moved = np.where(number >= self.at, (1 + self.step) * (1 + self.swap), 1.0)
        if self.lasting:
            moved[self.at + self.lasting :] = 1.0
        if self.second:
            moved[self.at + self.second :] *= 1 + self.step
        return np.asarray(moved * (1 + self.drift * np.clip((number - self.at) / self.drift_nights, 0, 1)))


class SimulatedSeries:
    """One unit's series; a night can be measured again as often as is asked.

    Args:
        seed: decides on everything.
        unit: tells units of one seed apart.
    """

    def __init__(self, world: World, scenario: Scenario, seed: int, unit: int = 0, nights: int = NIGHTS) -> None:
        self._random = np.random.default_rng([seed, unit])
        self._world, self._scenario, self.nights = world, scenario, nights
        self._hot, self._slow, self._burst, self._spiked = (
            self._random.random(nights) < share
            for share in (world.hot, scenario.slow_nights, scenario.bursts, scenario.spikes)
        )
        self._shown = self._random.random(nights) < world.shown
        self._heat = np.log1p(self._random.uniform(HOT_LOW, HOT_HIGH, nights))
        self._missing = self._random.random(nights) < world.missing
        self._growth = world.grown ** (np.arange(nights) / YEAR)
        self._builds = world.builds(np.random.default_rng([seed, unit, BUILD]), nights)
        self._software = np.log(scenario.level(nights)) + self._builds
        self._level = np.log(self._random.uniform(*world.base_ms)) + self._software + self._night_effects(seed)
        self._level += np.where(self._hot | self._slow, self._heat, 0.0)

    def _night_effects(self, seed: int) -> Array:
        """What moves whole nights: this unit's, and the room's."""
        world, count = self._world, self.nights
        drift = autoregressive(self._random, count, world.drift, world.coefficient)
        own = world.nights(self._random, count) * self._growth
        return np.asarray(drift + own + world.room(np.random.default_rng([seed, ROOM]), count))

    def branched(self, scenario: Scenario) -> SimulatedSeries:
        """The same series from here on, noise and all, but with another scenario: for steps after one history."""
        branch = copy.copy(self)
        branch._scenario, branch._random = scenario, copy.deepcopy(self._random)
        branch._software = self._software + np.log(scenario.level(self.nights) / self._scenario.level(self.nights))
        branch._level = self._level + branch._software - self._software
        return branch

    def night(self, number: int) -> Point:
        """The first measurement of a night."""
        runs = self._blocks(number, BLOCKS, self._heat[number] if self._burst[number] else 0.0)
        if self._spiked[number]:
            runs[int(self._random.integers(BLOCKS))] *= SPIKE
        is_hot = bool(self._hot[number] and self._shown[number])
        is_spoiled = not self.has(number)
        return Point(
            run=number,
            time=f"night {number}",
            runs=() if is_spoiled else tuple(runs),
            arms=() if is_spoiled else ("a", "b") * (BLOCKS // 2),
            spoiled="hot" if is_hot else "",
            identity="second" if self._scenario.swap and number >= self._scenario.at else "first",
            passive=self._world.passive,
        )

    def build(self, number: int) -> str:
        """Names the build that a night runs: one and the same in a world that says nothing of builds."""
        return str(self._builds[number])

    def has(self, number: int) -> bool:
        """Whether a night has a figure."""
        return not bool(self._missing[number] or (self._hot[number] and self._shown[number]))

    def again(self, point: Point, count: int) -> Point:
        """The night with so many more blocks."""
        runs = (*point.runs, *self._blocks(point.run, count, float(np.log1p(self._world.later))))
        return dataclasses.replace(point, runs=runs, reruns=point.reruns + count)

    def duet(self, number: int, since: int, pairs: int) -> Array:
        """Ratios of pairs: the software of this night over that of the night `since`, both measured in this night."""
        night = self._level[number]
        new = self._blocks(number, pairs)
        old = self._timed(night - self._software[number] + self._software[since], number, pairs)
        return np.asarray(np.divide(new, old))

    def values(self) -> Array:
        """Each night's figure, for rules that do not look at the device state."""
        points = (self.night(number) for number in range(self.nights))
        return np.array([trimmed_mean(point.runs or self._blocks(point.run, BLOCKS)) for point in points])

    def _blocks(self, number: int, count: int, slower: float = 0.0) -> list[float]:
        return self._timed(self._level[number] + slower, number, count)

    def _timed(self, level: float, number: int, count: int) -> list[float]:
        """The figures of blocks at a level, as the clock tells them."""
        scale = self._world.noise * BLOCKS**0.5 * self._growth[number]
        times_ms = np.exp(level + self._world.blocks(self._random, count, scale))
        if self._world.timer_ms:
            times_ms = np.maximum(np.round(times_ms / self._world.timer_ms), 1) * self._world.timer_ms
        return [float(value) for value in times_ms]
