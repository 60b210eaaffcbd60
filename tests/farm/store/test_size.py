"""Much of everything: a year of nights, and ten thousand series."""

from pathlib import Path

import pytest
import sqlalchemy as sa

from farm.rows.device_state import DeviceState
from farm.rows.nightly import Block, NightlyRow
from farm.rows.status import Status
from farm.store import Store, schema

METRICS = 4  # latency, initialisation, first run, memory
BLOCKS = 6
NAME = "benchmark"


@pytest.mark.slow
@pytest.mark.parametrize(("cases", "nights"), [(25, 365), (2500, 4)])
def test_a_large_store_returns_all_points(cases: int, nights: int, tmp_path: Path) -> None:
    with Store.open(str(tmp_path / "farm.db")) as store:
        copy_night(store, keep_night(store, cases), nights - 1)
        series = store.series(name=NAME)
    assert len(series) == METRICS * cases and {len(points) for points in series.values()} == {nights}


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
