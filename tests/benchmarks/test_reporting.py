"""The benchmark of reports measures a report of as many series as it says."""

from __future__ import annotations

from benchmarks.reporting import spent
from tests.farm.report import nights


def test_a_small_report() -> None:
    found = spent(20, 8)
    assert found.files > 20
    assert found.report_bytes > 1_000_000
    assert found.wall_s > 0 and found.peak_bytes > 10_000_000


def test_nights_of_a_size() -> None:
    made = nights.many(100, 12)
    assert len(made.series) == 100
    assert {len(each.points) for each in made.series} <= {2, 11, 12}
