"""Much of everything: a year of nights, and ten thousand series. How fast that is: benchmarks/storing.py."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.storing import METRICS, NAME, copy_night, keep_night
from farm.store import Store


@pytest.mark.slow
@pytest.mark.parametrize(("cases", "nights"), [(25, 365), (2500, 4)])
def test_a_large_store_returns_all_points(cases: int, nights: int, tmp_path: Path) -> None:
    with Store.open(str(tmp_path / "farm.db")) as store:
        copy_night(store, keep_night(store, cases), nights - 1)
        series = store.series(name=NAME)
    assert len(series) == METRICS * cases and {len(points) for points in series.values()} == {nights}
