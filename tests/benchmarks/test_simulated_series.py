"""Simulated series have the noise and the changes that were asked for, and the decision finds these changes."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.farm_units import Alarm, farm_rule
from benchmarks.simulated_series import (
    BASE_MS,
    BLOCKS,
    CHANGE_AT,
    NIGHTS,
    NOISY,
    PHONE,
    QUIET,
    WORLDS,
    Scenario,
    SimulatedSeries,
    World,
)
from benchmarks.worlds.measured import false_alarms
from tests.opencl import EXHAUSTIVE

SERIES = 12 if EXHAUSTIVE else 4  # years of nights; benchmarks/decisions.py simulates hundreds
STEPS = 15 if EXHAUSTIVE else 5


def logarithms(world: World) -> np.ndarray:
    return np.log(SimulatedSeries(world, Scenario(), 1, nights=3000).values() / BASE_MS)


@pytest.mark.parametrize(("world", "percent"), [(QUIET, 1), (NOISY, 3)])
def test_a_series_varies_by_the_noise_of_its_world(world: World, percent: float) -> None:
    assert 100 * logarithms(world).std() == pytest.approx(percent, rel=0.1)


def test_a_phone_drifts_and_gets_hot() -> None:
    series = SimulatedSeries(PHONE, Scenario(), 2, nights=3000)
    points = [series.night(number) for number in range(3000)]
    spoiled = [number for number, point in enumerate(points) if point.spoiled]
    assert len(spoiled) / 3000 == pytest.approx(0.027, rel=0.3)
    cool = np.array([np.log(point.value / BASE_MS) for point in points if point.value])
    cool = cool[np.abs(cool) < 0.07]
    assert 100 * cool.std() == pytest.approx((1 + 1.2**2) ** 0.5, rel=0.12)
    lasting = np.corrcoef(cool[1:], cool[:-1])[0, 1]
    assert lasting == pytest.approx(0.6 * 1.2**2 / (1 + 1.2**2), abs=0.1)


def test_measuring_again_shares_the_night_but_not_the_noise() -> None:
    series = SimulatedSeries(NOISY, Scenario(), 3)
    point = series.again(series.night(5), 3)
    assert (len(point.runs), point.reruns, len(set(point.runs))) == (BLOCKS + 3, 3, BLOCKS + 3)


def test_the_same_seed_gives_the_same_series() -> None:
    one, other = (SimulatedSeries(PHONE, Scenario(step=0.1), 4).values() for _ in range(2))
    assert np.array_equal(one, other)
    assert not np.array_equal(one, SimulatedSeries(PHONE, Scenario(step=0.1), 4, unit=1).values())


def test_changes_are_where_the_scenario_has_them() -> None:
    quiet = World("silent", 0.0)
    stepped = SimulatedSeries(quiet, Scenario(step=-0.1), 1, nights=62).values()
    assert stepped[58:62] == pytest.approx([10, 10, 9, 9])
    drifted = SimulatedSeries(quiet, Scenario(drift=0.06), 1).values()
    assert drifted[[60, 90, 120, 364]] == pytest.approx([10, 10.3, 10.6, 10.6])
    swapped = SimulatedSeries(quiet, Scenario(swap=0.1), 1)
    assert [swapped.night(number).identity for number in (59, 60)] == ["first", "second"]
    burst = SimulatedSeries(quiet, Scenario(bursts=1.0), 1)
    again = burst.again(burst.night(3), 2)
    assert min(again.runs[:BLOCKS]) > 10.7 and again.runs[BLOCKS:] == pytest.approx((10, 10))


def test_alarms_within_a_week_count_once() -> None:
    assert false_alarms([int(number in (3, 5, 11, 30)) for number in range(40)]) == 2


def judged(world: World, scenario: Scenario, seed: int, nights: int = NIGHTS) -> tuple[list[list[Alarm]], ...]:
    """Two units, each alone, and each with the other as its twin."""
    return farm_rule([SimulatedSeries(world, scenario, seed, unit, nights) for unit in range(2)])


def alarms(series: list[list[Alarm]]) -> int:
    return sum(false_alarms([night.alarm for night in nights]) for nights in series)


@pytest.mark.slow
@pytest.mark.parametrize("world", WORLDS, ids=lambda world: world.name)
def test_false_alarms_are_rare(world: World) -> None:
    found = [judged(world, Scenario(), seed) for seed in range(77, 77 + SERIES // 2)]
    assert sum(alarms(alone) for alone, _ in found) <= SERIES / 6
    assert sum(alarms(twinned) for _, twinned in found) <= SERIES / 6
    again = [night.again for alone, _ in found for nights in alone for night in nights]
    assert len(again) == SERIES * NIGHTS and np.mean(again) < 1.3


# At 3 % noise all of the 5 % steps were seen before the decision asked for precedents; a past move of 2.5 % stops some.
@pytest.mark.slow
@pytest.mark.parametrize(("step", "within", "share"), [(0.1, 1, 0.9), (0.05, 3, 0.63)])
def test_steps_are_seen_soon(step: float, within: int, share: float) -> None:
    found = [judged(NOISY, Scenario(step=step), seed, CHANGE_AT + 3)[0] for seed in range(300, 300 + STEPS)]
    since = [nights[CHANGE_AT : CHANGE_AT + within] for alone in found for nights in alone]
    assert sum(any(night.alarm == 1 for night in nights) for nights in since) >= share * 2 * STEPS


@pytest.mark.slow
def test_a_slow_first_measurement_is_seldom_taken_for_a_change() -> None:
    seeds = range(500, 500 + SERIES // 4)
    assert sum(alarms(judged(QUIET, Scenario(bursts=0.02), seed)[0]) for seed in seeds) <= 2
