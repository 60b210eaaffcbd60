"""Measures the decision's false-alarm rate and detection delay on simulated series, by history and with duets.

    python benchmarks/decisions.py [--world NAME] [--seed 1] [--results FILE] [--minutes 3.5] [--write]

Series are simulated (simulated_series.py); their true changes are known. The worlds are those of benchmarks/worlds/.
"""

import functools
import multiprocessing
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import click

sys.path.insert(0, str(Path(__file__).parents[1]))  # the folder of a script is searched for imports, the tree is not

from benchmarks.simulated_series import WORLDS, World
from benchmarks.worlds.measured import Count, measure
from benchmarks.worlds.page import PAGE, Results, tables, volume_text, written
from benchmarks.worlds.unseen import UNSEEN

PROCESSES = 2
PARTS, PART_YEARS = 100, 2  # of each world


@click.command()
@click.option(
    "--world",
    "named",
    type=click.Choice([world.name for world in (*WORLDS, *UNSEEN)]),
    multiple=True,
    help="Default: all.",
)
@click.option("--seed", type=int, default=1, show_default=True)
@click.option(
    "--results",
    type=click.Path(path_type=Path),
    default=Path("worlds.jsonl"),
    show_default=True,
    help="The parts that were simulated; a later call goes on from there.",
)
@click.option("--minutes", type=float, default=60.0, show_default=True, help="Begin no part after that.")
@click.option("--write", is_flag=True, help="Put the tables into docs/measurement.md.")
def main(named: Sequence[str], seed: int, results: Path, minutes: float, write: bool) -> None:
    """The decision's operating figures, on simulated series."""
    known = Results(results)
    simulate_worlds(known, named, seed, minutes)
    show_worlds(known, named, seed, write)


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


if __name__ == "__main__":
    main()
