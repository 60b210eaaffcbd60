"""Packed points are the points that were packed."""

from __future__ import annotations

import json
import math

from farm.rows.packed_points import PackedPoints
from farm.rows.series import Point

COMMITS = {3: "c0ffee", 5: "", 8: "naïve \0"}
TEXTS = (
    {"time": "2026-01-01T00:00:00+00:00", "runs": [1, 2.5], "arms": ["a", "b"], "identity": 'é"\\'},
    {"time": "", "runs": ["NaN", "-Infinity"], "passive": True, "temperature_c": 41.5},
    {"time": "", "runs": [], "status": "failed", "reason": "],["},
)


def packed() -> PackedPoints:
    return PackedPoints([3, 5, 8], ",".join(map(json.dumps, TEXTS)), COMMITS)


def test_points_come_out_as_they_went_in() -> None:
    first, second, third = packed()
    assert first == Point(3, "2026-01-01T00:00:00+00:00", (1.0, 2.5), ("a", "b"), identity='é"\\', commit="c0ffee")
    assert math.isnan(second.runs[0]) and second.runs[1] == -math.inf and second.temperature_c == 41.5
    assert (third.runs, third.status, third.reason, third.commit) == ((), "failed", "],[", "naïve \0")


def test_they_are_a_sequence() -> None:
    points = packed()
    assert len(points) == 3 and points.last_run == 8
    assert points[-1].run == 8 and [point.run for point in points[-2:]] == [5, 8]


def test_series_asked_for_in_turns_are_not_mixed_up() -> None:
    one, other = packed(), PackedPoints([9], json.dumps(TEXTS[0]), {9: "x"})
    assert [one[0].run, other[0].run, one[0].run, len(list(other))] == [3, 9, 3, 1]


def test_a_store_may_give_them_in_any_order() -> None:
    points = PackedPoints([8, 3, 5], ",".join(json.dumps(TEXTS[place]) for place in (2, 0, 1)), COMMITS)
    assert [(point.run, point.commit) for point in points] == list(COMMITS.items()) and points.last_run == 8
    assert points[0] == packed()[0]
