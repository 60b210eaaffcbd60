"""The worlds vary as they say, duets are free of what is the night's own, and the tables are put into the page."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchmarks.simulated_series import NIGHTS, Scenario, SimulatedSeries, World
from benchmarks.worlds.measured import false_alarms, measure
from benchmarks.worlds.page import BEGIN, END, tables, written
from benchmarks.worlds.results import Results
from benchmarks.worlds.unit_pair import ALONE, DUET, DUET_TWIN
from benchmarks.worlds.unseen import GROUND, UNSEEN
from runtime.statistics.ratios import ratio_of_pairs

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
