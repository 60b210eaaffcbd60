"""The scaling benchmark's ideal time and its jobs are right."""

import pytest

from benchmarks.scaling import durations, ideal_s


def test_no_schedule_is_shorter_than_its_longest_job_or_its_share() -> None:
    assert ideal_s([1.0, 1.0, 1.0, 1.0], 2) == 2.0
    assert ideal_s([5.0, 1.0], 2) == 5.0


def test_jobs_are_the_same_each_time_and_about_as_long_as_asked() -> None:
    found = durations(1000, 2.0)
    assert found == durations(1000, 2.0)
    assert sum(found) / 1000 == pytest.approx(2.0, rel=0.05)
    assert min(found) >= 1.0 and max(found) <= 3.0
