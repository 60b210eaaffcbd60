"""Simulated series of nightly latencies, with the true changes known.

A night is measured in six blocks, three under each label of the A/A control. `noise` is the standard deviation of a
night's figure (in percent), so that of a block is sqrt(6) times as large. Blocks that are measured again are as
noisy, and share all that is the night's own:

- drift: a deviation from night to night, AR(1), given by its stationary standard deviation and coefficient;
- hot nights: the unit is slower by 8 to 25 % for the whole night; nine in ten show in the device state, which spoils
  all blocks of the night, one in ten does not.

Changes: steps (true), drifts by so much over so many nights (true from their middle on), spikes of a single block,
whole nights that were slow for reasons outside (neither is a change), and units that are exchanged for others (no
change: the series begins anew).
"""

from __future__ import annotations

import dataclasses

import numpy as np
import numpy.typing as npt

from farm.series import Point, typical

BLOCKS = 6
NIGHTS = 365
HOT_LOW, HOT_HIGH = 0.08, 0.25
BASE_MS = 10.0

Array = npt.NDArray[np.float64]


@dataclasses.dataclass(frozen=True)
class World:
    """How a series varies when nothing changes; shares, not percent."""

    name: str
    noise: float
    drift: float = 0.0
    coefficient: float = 0.0
    hot: float = 0.0
    shown: float = 0.9
    passive: bool = False


QUIET = World("1 % noise", 0.01)
NOISY = World("3 % noise", 0.03)
PHONE = World("phone-like", 0.01, drift=0.012, coefficient=0.6, hot=0.03, passive=True)
WORLDS = (QUIET, NOISY, PHONE)


@dataclasses.dataclass(frozen=True)
class Scenario:
    """What happens to a series: factors of its level by night, who is measured, and odd nights and blocks."""

    step: float = 0.0  # share, from the night `at` on
    at: int = 60
    drift: float = 0.0  # share, within `drift_nights` from `at` on
    drift_nights: int = 60
    spikes: float = 0.0  # share of nights with one block twice as slow
    slow_nights: float = 0.0  # share of nights that are slower by 8 to 25 % for reasons outside; measuring again is too
    swap: float = 0.0  # from the night `at` on another unit, with a level that differs by this share

    def level(self, nights: int) -> Array:
        """Factor of each night's level."""
        number = np.arange(nights)
        stepped = np.where(number >= self.at, 1 + self.step, 1.0)
        drifted = 1 + self.drift * np.clip((number - self.at) / self.drift_nights, 0, 1)
        swapped = np.where(number >= self.at, 1 + self.swap, 1.0)
        return np.asarray(stepped * drifted * swapped)


class Series:
    """One simulated unit's series; night after night, measured again as often as is asked.

    Args:
        seed: decides on everything.
        unit: two units of a SoC share the scenario, and nothing else.
    """

    def __init__(self, world: World, scenario: Scenario, seed: int, unit: int = 0, nights: int = NIGHTS) -> None:
        self._random = np.random.default_rng([seed, unit])
        self._world, self._scenario = world, scenario
        self._level = np.log(BASE_MS * scenario.level(nights)) + _drift(world, nights, self._random)
        self._hot = self._random.random(nights) < world.hot
        self._shown = self._random.random(nights) < world.shown
        heat = self._random.uniform(HOT_LOW, HOT_HIGH, nights)
        slow = self._random.random(nights) < scenario.slow_nights
        self._level += np.where(self._hot, np.log1p(heat), 0.0) + np.where(slow, np.log1p(heat), 0.0)
        self._spiked = self._random.random(nights) < scenario.spikes
        self.nights = nights

    def night(self, number: int) -> Point:
        """The first measurement of a night."""
        runs = self._blocks(number, BLOCKS)
        if self._spiked[number]:
            runs[int(self._random.integers(BLOCKS))] *= 2
        spoiled = bool(self._hot[number] and self._shown[number])
        return Point(
            run=number,
            time=f"night {number}",
            runs=() if spoiled else tuple(runs),
            arms=() if spoiled else ("a", "b") * (BLOCKS // 2),
            spoiled="hot" if spoiled else "",
            identity="second" if self._scenario.swap and number >= self._scenario.at else "first",
            passive=self._world.passive,
        )

    def spoiled_value(self, number: int) -> float:
        """The figure of a spoiled night, for those who do not look at the device state."""
        return typical(self._blocks(number, BLOCKS))

    def again(self, point: Point, count: int) -> Point:
        """The night with so many more blocks."""
        return dataclasses.replace(
            point, runs=(*point.runs, *self._blocks(point.run, count)), reruns=point.reruns + count
        )

    def _blocks(self, number: int, count: int) -> list[float]:
        noise = self._random.normal(0, self._world.noise * BLOCKS**0.5, count)
        return [float(value) for value in np.exp(self._level[number] + noise)]


def _drift(world: World, nights: int, random: np.random.Generator) -> Array:
    found = np.zeros(nights)
    if world.drift:
        found[0] = random.normal(0, world.drift)
        pushes = random.normal(0, world.drift * (1 - world.coefficient**2) ** 0.5, nights)
        for night in range(1, nights):
            found[night] = world.coefficient * found[night - 1] + pushes[night]
    return found


@dataclasses.dataclass(frozen=True)
class Night:
    """What a rule says of a night: 1 slower, -1 faster, 0 nothing; how many blocks it had measured again."""

    alarm: int
    provisional: bool = False
    reruns: int = 0
