"""The worlds vary as they say, duets are free of what is the night's own, and the tables are put into the page."""

from pathlib import Path

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
from benchmarks.worlds.measured import false_alarms, measure
from benchmarks.worlds.page import BEGIN, END, Results, tables, written
from benchmarks.worlds.unit_pair import ALONE, DUET, DUET_TWIN
from benchmarks.worlds.unseen import GROUND, UNSEEN
from runtime.statistics.ratios import ratio_of_pairs
from tests.opencl import EXHAUSTIVE

SHORT = UNSEEN[-1]
BY_NAME = {world.name: world for world in UNSEEN}


def levels(world: World, nights: int = 1000, unit: int = 0) -> np.ndarray:
    series = SimulatedSeries(world, Scenario(), 3, unit, nights)
    return np.log([series.night(number).value or np.nan for number in range(nights)])


def lasting(values: np.ndarray) -> float:
    return float(np.corrcoef(values[1:], values[:-1])[0, 1])


def test_worlds_have_names_of_their_own() -> None:
    assert len(BY_NAME) == len(UNSEEN) >= 22


def test_the_ground_has_a_percent_of_nights_and_one_of_blocks() -> None:
    assert 100 * levels(GROUND).std() == pytest.approx(2**0.5, rel=0.1)


@pytest.mark.parametrize(
    ("name", "share"), [("clock state per night, p 0.05", 0.05), ("clock state per night, p 0.5", 0.5)]
)
def test_a_share_of_nights_runs_at_the_slow_clock(name: str, share: float) -> None:
    values = levels(BY_NAME[name])
    assert np.mean(values - values.min() > 0.12) == pytest.approx(share, abs=0.06)


def test_what_lasts_lasts() -> None:
    assert lasting(levels(BY_NAME["clock state for 10 nights"])) > 0.6
    assert lasting(levels(BY_NAME["reboot levels 2 %, 1 in 14"])) > 0.4
    assert abs(lasting(levels(GROUND))) < 0.1


def test_noise_grows_fivefold_in_a_year() -> None:
    values = levels(BY_NAME["noise x5 over a year"], NIGHTS)
    assert values[-60:].std() > 2.5 * values[:60].std()


def test_what_is_the_rooms_is_the_same_for_all_units() -> None:
    def together(name: str) -> float:
        return float(np.corrcoef(levels(BY_NAME[name]), levels(BY_NAME[name], unit=1))[0, 1])

    assert together("common levels 4 %") > 0.7
    assert together("all units hot on the same nights") > 0.5
    assert abs(together("Gaussian nights")) < 0.1


def test_a_coarse_timer_gives_whole_milliseconds() -> None:
    runs = SimulatedSeries(BY_NAME["1 ms timer on 6 ms"], Scenario(), 1).night(3).runs
    assert all(run == round(run) for run in runs)


def test_further_blocks_are_slower_where_the_world_says_so() -> None:
    series = SimulatedSeries(BY_NAME["further blocks 8 % slower"], Scenario(), 1)
    point = series.again(series.night(5), 600)
    assert np.mean(point.runs[6:]) / np.mean(series.again(series.night(5), 600).runs[:6]) == pytest.approx(
        1.08, abs=0.04
    )


def test_changes_come_and_go_as_the_scenario_says() -> None:
    silent = World("silent", 0.0)
    fixed = SimulatedSeries(silent, Scenario(step=0.1, lasting=5), 1, nights=70).values()
    assert fixed[[59, 60, 64, 65]] == pytest.approx([10, 11, 11, 10])
    twice = SimulatedSeries(silent, Scenario(step=0.1, second=3), 1, nights=70).values()
    assert twice[[59, 60, 63]] == pytest.approx([10, 11, 12.1])


@pytest.mark.parametrize("name", ["random walk 0.3 %", "common levels 4 %", "clock state for 10 nights"])
def test_a_duet_is_free_of_what_is_the_nights_own(name: str) -> None:
    series = SimulatedSeries(BY_NAME[name], Scenario(step=0.1), 2, nights=70)
    for night, since, ratio in ((69, 62, 1.0), (61, 54, 1.1)):
        found = ratio_of_pairs(list(series.duet(night, since, 60)), [1.0] * 60)
        assert found and found.low < ratio < found.high


def test_a_duet_sees_what_builds_differ_by_and_nights_of_one_build_do_not_differ() -> None:
    series = SimulatedSeries(BY_NAME["a build each week, ±4 %"], Scenario(), 2, nights=70)
    builds = [series.build(night) for night in range(70)]
    shown = [abs(np.log(series.duet(night, 0, 400)).mean()) for night in range(70)]
    within = [one for one, build in zip(shown, builds, strict=True) if build == builds[0]]
    assert max(within) < 0.008 and max(shown) > 0.02
    assert 4 < len(set(builds)) < 25
    steady = SimulatedSeries(GROUND, Scenario(), 2, nights=9)
    assert len({steady.build(night) for night in range(9)}) == 1


def test_a_branch_shares_the_noise_of_its_series_and_nothing_that_comes_later() -> None:
    series = SimulatedSeries(BY_NAME["AR(1) 0.9"], Scenario(), 4, nights=70)
    branch = series.branched(Scenario(step=0.1))
    ratios = [np.divide(branch.night(night).runs, series.night(night).runs) for night in (59, 60)]
    assert np.allclose(ratios[0], 1.0) and np.allclose(ratios[1], 1.1)


def test_alarms_within_a_week_count_once() -> None:
    assert false_alarms([0, 1, 0, -1, 0, 0, 0, 0, 0, 0, 0, 1]) == 2


@pytest.mark.slow
def test_a_world_is_measured_and_its_tables_replace_those_of_the_page() -> None:
    found = {"ground": measure(GROUND, 1, seed=1)}
    assert found["ground"][DUET].years == found["ground"][DUET_TWIN].years == 2, "a pair of units is simulated"
    assert found["ground"][DUET].steps[0.10][2] == found["ground"][DUET_TWIN].steps[0.10][2] == 10, "after five pasts"
    assert found["ground"][ALONE].steps[0.10][0] >= 8 and found["ground"][DUET].change == [2, 2]
    assert 0 < found["ground"][DUET].duets < found["ground"][DUET].blocks
    text = tables(found)
    assert written(f"before\n{BEGIN}old\n{END}after\n", text) == f"before\n{BEGIN}{text}{END}after\n"


@pytest.mark.slow
def test_a_simulation_goes_on_where_it_stopped(tmp_path: Path) -> None:
    counts = measure(SHORT, 1, seed=1)
    for part in range(2):
        assert not Results(tmp_path / "worlds.jsonl").has(SHORT.name, part)
        Results(tmp_path / "worlds.jsonl").add(SHORT.name, part, counts)
    kept = Results(tmp_path / "worlds.jsonl")
    assert kept.has(SHORT.name, 1) and not kept.has(SHORT.name, 2)
    (found,) = kept.totals([SHORT.name, "another world"]).values()
    assert found[DUET].steps[0.10][2] and found == {rule: count + count for rule, count in counts.items()}


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


def test_alarms_of_neighbouring_nights_count_once() -> None:
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
