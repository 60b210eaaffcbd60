"""How long a store takes to keep a night, and to read the series of many.

    python benchmarks/storing.py [--series 100] [--nights 365] [--store URL]

Nights after the first one are copies of its points; what is read is what `farm nightly` and `farm report` read.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import click
import sqlalchemy as sa

sys.path.insert(0, str(Path(__file__).parents[1]))

from farm.rows.device_state import DeviceState
from farm.rows.nightly import Block, NightlyRow
from farm.rows.status import Status
from farm.store import Store, schema

METRICS = 4  # latency, initialisation, first run, memory
BLOCKS = 6
NAME = "benchmark"


@click.command()
@click.option("--series", default=100, show_default=True, help="Of four metrics each case.")
@click.option("--nights", default=365, show_default=True)
@click.option("--store", metavar="URL", help="Another store than a new SQLite file; its contents stay.")
def main(series: int, nights: int, store: str | None) -> None:
    """Prints the times."""
    with TemporaryDirectory() as folder, Store.open(store or f"{folder}/farm.db") as opened:
        begun_s = time.perf_counter()
        first = keep_night(opened, series // METRICS)
        kept_s = time.perf_counter() - begun_s
        copy_night(opened, first, nights - 1)
        begun_s = time.perf_counter()
        points_by_series = opened.series(name=NAME)
        read_s = time.perf_counter() - begun_s
    click.echo(f"one night of {series // METRICS} cases kept in {kept_s:.2f} s")
    click.echo(f"{len(points_by_series)} series of {nights} nights read in {read_s:.2f} s")


def keep_night(store: Store, cases: int) -> int:
    """A run with a row for each case, as a command keeps it; its number."""
    run = store.begin(NAME, "")
    store.add(run, [_row(f"unit{number}") for number in range(cases)])
    return run


def copy_night(store: Store, first: int, nights: int) -> None:
    """So many more runs with the same points."""
    others = [store.begin(NAME, "") for _ in range(nights)]
    pairs = sa.and_(schema.points.c.run_id == first, schema.runs.c.id.in_(others))
    copied = sa.select(schema.points.c.series_id, schema.runs.c.id, schema.points.c.point)
    copied = copied.join_from(schema.points, schema.runs, pairs)
    with store.writing() as connection:
        connection.execute(schema.points.insert().from_select(["series_id", "run_id", "point"], copied))


def _row(unit: str) -> NightlyRow:
    state = DeviceState(temperature_c=31.0, battery_percent=80)
    blocks = tuple(
        Block(
            time="2026-01-01T00:00:00+00:00",
            arm="ab"[number % 2],
            init_ms=100.0,
            first_ms=20.0,
            samples=(5.0 + number,) * 10,
            state_before=state,
            state_after=state,
        )
        for number in range(BLOCKS)
    )
    return NightlyRow(
        unit=unit,
        soc="sdm845",
        device_model="MI 8",
        library="library",
        model="model",
        runtime="gpu",
        status=Status.OK,
        blocks=blocks,
        memory_bytes={"buffers": 1},
    )


if __name__ == "__main__":
    main()
