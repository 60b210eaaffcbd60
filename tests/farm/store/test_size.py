"""Much of everything: a year of nights, and ten thousand series."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
import sqlalchemy as sa

from farm.store import Store, schema
from tests.farm.store.rows import a_block, a_nightly_row

BLOCKS = [a_block(5.0 + number, arm="ab"[number % 2]) for number in range(6)]


def fill(store: Store, cases: int, nights: int) -> None:
    """One night as a command keeps it; the others are copies of its points."""
    first = store.begin("lab", "")
    store.add(first, [a_nightly_row(*BLOCKS, unit=f"unit{number}", status="ok") for number in range(cases)])
    others = [store.begin("lab", "") for _ in range(nights - 1)]
    copied = sa.select(schema.points.c.series_id, schema.runs.c.id, schema.points.c.point)
    pairs = sa.and_(schema.points.c.run_id == first, schema.runs.c.id.in_(others))
    copied = copied.join_from(schema.points, schema.runs, pairs)
    with store.writing() as connection:
        connection.execute(schema.points.insert().from_select(["series_id", "run_id", "point"], copied))


@pytest.mark.slow
@pytest.mark.parametrize(("cases", "nights", "within_s"), [(25, 365, 8.0), (2500, 4, 12.0)])
def test_series_are_read_in_seconds(cases: int, nights: int, within_s: float, tmp_path: Path) -> None:
    with Store.open(str(tmp_path / "farm.db")) as store:
        fill(store, cases, nights)
        started = time.monotonic()
        series = store.series(name="lab")
        took_s = time.monotonic() - started
    print(f"{len(series)} series of {nights} nights: {took_s:.2f} s")
    assert len(series) == 4 * cases and {len(points) for points in series.values()} == {nights}
    assert took_s < within_s
