"""The benchmark of reports measures a report of as many series as it says."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.reporting import in_a_process, spent
from benchmarks.stored_nights import fill
from farm.store import Store
from tests.farm.report import nights


@pytest.mark.slow
def test_a_reports_time_memory_and_size_are_measured() -> None:
    found = in_a_process(20, 8)
    assert found.files > 20
    assert found.report_bytes > 1_000_000
    assert found.wall_s > 0 and found.cpu_s > 0 and found.peak_bytes > 10_000_000


@pytest.mark.slow
def test_a_store_has_as_many_series_and_nights_as_asked_and_is_judged(tmp_path: Path) -> None:
    with Store.open(str(tmp_path / "farm.db")) as store:
        last = fill(store, 500, 9)  # more than the phones that differ have
        points = store.series()
    assert 500 <= len(points) < 510 and {len(each) for each in points.values()} == {9}
    assert {each[-1].run for each in points.values()} == {last}
    found = spent(500, 9, str(tmp_path / "farm.db"))
    assert found.judging_s > 0 and found.series == len(points) < found.files


def test_made_up_nights_have_as_many_series_and_points_as_asked() -> None:
    made = nights.many(100, 12)
    assert len(made.series) == 100
    assert {len(each.points) for each in made.series} <= {2, 11, 12}
