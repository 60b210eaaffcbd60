"""Launches are told by how near they come to the device's peak."""

from __future__ import annotations

from benchmarks.measured_peak import LaunchRate, row_of


def test_launches_are_told_by_how_near_they_come_to_the_peak() -> None:
    launches = [LaunchRate(60.0, 96.0), LaunchRate(30.0, 81.0), LaunchRate(10.0, 0.0)]
    assert row_of("net", launches, 90.0, 100.0) == "| net | 90, 100 | 2 | 90 % | 96 % | 1 | 1 | 2 | 2 |"
