"""Measures the decision's false-alarm rate and detection delay on simulated series, beside four plain rules.

    python benchmarks/decisions.py [--years 400] [--series 200] [--seed 1] [--quick]
    python benchmarks/decisions.py --unseen [--results FILE] [--minutes 3.5] [--write]

Series are simulated (simulated_series.py); their true changes are known. False alarms are alarms in series of
365 nights in which nothing changes, alarms within a week of each other counted once; both directions count. A step is
seen when a night says so in its direction: its first one, one of its first three, one of its first fourteen. What is
only provisional counts apart. "Again" is how often a night is measured again on average, parts of it counted. Intervals
are exact, 95 %. The rules that the decision is compared with know no device state and measure once.
"""

from __future__ import annotations

import dataclasses
import functools
import multiprocessing
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import click

sys.path.insert(0, str(Path(__file__).parents[1]))  # the folder of a script is searched for imports, the tree is not

from benchmarks.detection_rules import OTHERS, Alarm, farm_rule
from benchmarks.simulated_series import CHANGE_AT, NIGHTS, WORLDS, Scenario, SimulatedSeries, World
from benchmarks.worlds.measured import Count, measure
from benchmarks.worlds.page import PAGE, tables, volume_text, written
from benchmarks.worlds.results import Results
from benchmarks.worlds.unseen import UNSEEN
from farm.decision.controls import poisson_interval
from farm.tables.table import Table, show

ALONE, TWIN = "farm, a unit alone", "farm, with a twin"
PROCESSES = 2
WEEK = 7
STEPS = (0.05, -0.05, 0.10, -0.10)
AFTER = 14  # nights that a step is followed for
SEEN = ("first", "three", "fourteen")
SEEN_NIGHTS = dict(zip(SEEN, (1, 3, AFTER), strict=True))
PARTS, PART_YEARS = 100, 2  # of each world
OTHERS_SHARE = 10  # of so many series the other rules see one: they are far enough off
ODDITIES = (
    Scenario("a block twice as slow, 2 % of nights", spikes=0.02),
    Scenario("a slow first measurement, 2 % of nights", bursts=0.02),
    Scenario("a slow whole night, 2 % of nights", slow_nights=0.02),
    Scenario("another unit, 10 % slower", swap=0.10, at=180),
    Scenario("another unit, 10 % faster", swap=-0.10, at=180),
)
SLOW_DRIFT = Scenario("6 % slower within 60 nights", drift=0.06)

Counts = dict[str, Counter[str]]


@dataclasses.dataclass(frozen=True)
class Task:
    """Two units of one SoC to simulate; whether the other rules see them too."""

    world: World
    scenario: Scenario
    nights: int
    seed: int
    others: bool = False


def simulated(task: Task) -> Counts:
    """What each rule made of it."""
    pair = [SimulatedSeries(task.world, task.scenario, task.seed, unit, task.nights) for unit in range(2)]
    alone, twinned = farm_rule(pair)
    totals = {ALONE: _total(alone, task.scenario), TWIN: _total(twinned, task.scenario)}
    if task.others:
        values = [
            SimulatedSeries(task.world, task.scenario, task.seed, unit, task.nights).values() for unit in range(2)
        ]
        totals |= {name: _total([rule(series) for series in values], task.scenario) for name, rule in OTHERS.items()}
    return totals


def _total(series: Iterable[Sequence[Alarm]], scenario: Scenario) -> Counter[str]:
    counts: Counter[str] = Counter()
    for nights in series:
        counts.update(_counted(nights, scenario))
    return counts


def _counted(nights: Sequence[Alarm], scenario: Scenario) -> dict[str, float]:
    """Of one series."""
    sign = -1 if scenario.step + scenario.drift < 0 else 1
    since = [night.alarm == sign for night in nights[scenario.at :]]
    return {
        "series": 1,
        "nights": len(nights),
        "alarms": alarms(nights),
        "provisional": sum(night.provisional for night in nights),
        "again": sum(night.again for night in nights),
        "told": any(since),
        **{name: any(since[:count]) for name, count in SEEN_NIGHTS.items()},
        "first_provisional": bool(nights[scenario.at : scenario.at + 1]) and nights[scenario.at].provisional,
    }


def alarms(nights: Sequence[Alarm]) -> int:
    """How many there are, those within a week after another counted once with it."""
    count, last = 0, -WEEK
    for number, night in enumerate(nights):
        if night.alarm:
            count += number - last >= WEEK
            last = number
    return count


def all_of(tasks: Sequence[Task], run: Callable[[Task], Counts] = simulated) -> Counts:
    """The sum over tasks, on two processors."""
    total: Counts = defaultdict(Counter)
    with multiprocessing.get_context("spawn").Pool(PROCESSES) as pool:
        for counts_by_rule in pool.imap_unordered(run, tasks, chunksize=4):
            for name, counts in counts_by_rule.items():
                total[name].update(counts)
    return total


def tasks_of(world: World, scenario: Scenario, nights: int, series: int, seed: int, others: bool = True) -> list[Task]:
    """Pairs of units, so many series in all."""
    pairs = range((series + 1) // 2)
    return [Task(world, scenario, nights, seed + pair, others and pair % OTHERS_SHARE == 0) for pair in pairs]


def rate(count: float, years: float) -> str:
    """A year, with its interval."""
    low, high = poisson_interval(round(count))
    return f"{count / years:.3f} ({low / years:.3f}-{high / years:.3f})"


def share(count: float, of: float) -> str:
    """In percent, with its interval."""
    from scipy import stats  # takes longer to import than all else here

    low, high = stats.binomtest(round(count), round(of)).proportion_ci(method="exact")
    return f"{100 * count / of:.1f} ({100 * low:.1f}-{100 * high:.1f})"


def quiet_table(world: World, found: Mapping[str, Counter[str]]) -> Table:
    """Series in which nothing changes."""
    columns = ("Rule", "Series-years", "False alarms/series-year", "Provisional nights/series-year", "Again/night")
    return Table(f"{world.name}: nothing changes", columns, [_quiet_cells(*item) for item in found.items()])


def _quiet_cells(name: str, counts: Counter[str]) -> list[str]:
    years = counts["nights"] / NIGHTS
    again = f"{counts['again'] / counts['nights']:.2f}"
    return [name, f"{years:.0f}", rate(counts["alarms"], years), f"{counts['provisional'] / years:.2f}", again]


def step_table(world: World, found: Mapping[str, Mapping[str, Counter[str]]]) -> Table:
    """Steps, by size."""
    columns = ("Step", "Rule", "Series", "First night (%)", "Within 3 (%)", "Within 14 (%)", "Provisional first (%)")
    return Table(
        f"{world.name}: steps",
        columns,
        [[step, *_step_cells(*item)] for step, by_rule in found.items() for item in by_rule.items()],
    )


def _step_cells(name: str, counts: Counter[str]) -> list[str]:
    of = counts["series"]
    seen = (share(counts[each], of) for each in SEEN)
    return [name, f"{of:.0f}", *seen, f"{100 * counts['first_provisional'] / of:.1f}"]


def odd_table(world: World, found: Mapping[str, Mapping[str, Counter[str]]]) -> Table:
    """What is no change, and what is a slow one."""
    columns = ("What", "Rule", "Series", "Alarms/series-year", "Series told slower (%)")
    rows = [
        [what, name, f"{counts['series']:.0f}", rate(counts["alarms"], counts["nights"] / NIGHTS),
         share(counts["told"], counts["series"])]
        for what, by_rule in found.items()
        for name, counts in by_rule.items()
    ]  # fmt: skip
    return Table(f"{world.name}: odd nights, exchanged units, slow drifts", columns, rows)


@click.command()
@click.option("--years", type=click.IntRange(0), default=400, show_default=True, help="Series-years without a change.")
@click.option("--series", type=click.IntRange(0), default=200, show_default=True, help="Series with a step, each.")
@click.option("--odd", type=click.IntRange(0), default=10, show_default=True, help="Series-years of odd things, each.")
@click.option(
    "--world",
    "named",
    type=click.Choice([world.name for world in (*WORLDS, *UNSEEN)]),
    multiple=True,
    help="Default: all.",
)
@click.option("--seed", type=int, default=1, show_default=True)
@click.option("--quick", is_flag=True, help="Few series: whether it works, not how well.")
@click.option("--unseen", is_flag=True, help="The worlds of benchmarks/worlds/ instead, with duets.")
@click.option(
    "--results",
    type=click.Path(path_type=Path),
    default=Path("worlds.jsonl"),
    show_default=True,
    help="With --unseen: the parts that were simulated; a later call goes on from there.",
)
@click.option("--minutes", type=float, default=60.0, show_default=True, help="With --unseen: begin no part after that.")
@click.option("--write", is_flag=True, help="With --unseen: put the tables into docs/measurement.md.")
def main(
    years: int,
    series: int,
    odd: int,
    named: Sequence[str],
    seed: int,
    quick: bool,
    unseen: bool,
    results: Path,
    minutes: float,
    write: bool,
) -> None:
    """The decision's operating figures, on simulated series."""
    if quick:
        years, series, odd = 2, 4, 2
    if unseen:
        known = Results(results)
        simulate_worlds(known, named, seed, minutes)
        show_worlds(known, named, seed, write)
        return
    first = functools.partial(_seed, seed)
    for number, world in enumerate(WORLDS):
        if named and world.name not in named:
            continue
        quiet = all_of(tasks_of(world, Scenario(), NIGHTS, years, first(number, 0)))
        steps = {
            f"{100 * step:+.0f} %": all_of(
                tasks_of(world, Scenario(step=step), CHANGE_AT + AFTER, series, first(number, 1 + place))
            )
            for place, step in enumerate(STEPS)
        }
        odds = {
            scenario.name: all_of(tasks_of(world, scenario, NIGHTS, odd, first(number, 10 + place), others=False))
            for place, scenario in enumerate((*ODDITIES, SLOW_DRIFT))
        }
        show([quiet_table(world, quiet), step_table(world, steps), odd_table(world, odds)])


def simulate_worlds(results: Results, named: Sequence[str], seed: int, minutes: float) -> None:
    """Simulates the worlds that the thresholds were not chosen on, part by part, as long as there is time."""
    ends_s = time.monotonic() + 60 * minutes
    missing = [(world, part) for part in range(PARTS) for world in _worlds(named) if not results.has(world.name, part)]
    with multiprocessing.get_context("spawn").Pool(PROCESSES) as pool:
        run = functools.partial(_simulated_part, seed=seed, ends_s=ends_s)
        for found in pool.imap_unordered(run, missing):
            if found:
                results.add(*found)


def _simulated_part(task: tuple[World, int], seed: int, ends_s: float) -> tuple[str, int, dict[str, Count]] | None:
    """World, part and counts; None when the time is up."""
    world, part = task
    if time.monotonic() > ends_s:
        return None
    return world.name, part, measure(world, PART_YEARS, 1_000_000 * seed + 1000 * part)


def _worlds(named: Sequence[str]) -> list[World]:
    return [world for world in (*WORLDS, *UNSEEN) if not named or world.name in named]


def show_worlds(results: Results, named: Sequence[str], seed: int, write: bool) -> None:
    """Prints or writes the tables of all that was simulated."""
    found = results.totals([world.name for world in _worlds(named)])
    text = f"\n{tables(found)}\nSeed {seed}. {volume_text(found)}\n"
    if write:
        PAGE.write_text(written(PAGE.read_text(), text))
    else:
        click.echo(text)


def _seed(seed: int, world: int, part: int) -> int:
    """The first of a part's series: no two parts share one."""
    return seed * 10_000_000 + world * 1_000_000 + part * 10_000


if __name__ == "__main__":
    main()
