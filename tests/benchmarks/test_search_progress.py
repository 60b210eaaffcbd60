"""Curves of searches: the best so far only falls, medians and crossings are right, and the drawing is whole."""

from __future__ import annotations

import math
import random
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from benchmarks import search_progress
from benchmarks.step_chart import Axes, Panel, svg

DATA = Path(__file__).parents[1] / "tuner" / "data" / "mobilenet_v1.json.gz"
CURVE = [(0.0, 2.0), (1.0, 1.5), (4.0, 1.0)]


@pytest.mark.slow
def test_trying_everything_ends_at_the_best_whatever_the_order() -> None:
    replay = search_progress.in_order(DATA, random.Random(1))
    values = [value for _, value in replay.curve]
    assert values == sorted(values, reverse=True) and values[0] > 1.05
    assert values[-1] == pytest.approx(1.0)
    assert replay.curve[-1][0] == pytest.approx(search_progress.in_order(DATA, None).curve[-1][0])


@pytest.mark.slow
def test_what_a_search_leaves_is_what_it_tried() -> None:
    replay = search_progress.quick(DATA, "system")
    journal = search_progress.journal_of("system", replay)
    assert len(journal) == len(replay.curve) - 1 and {trial.family for trial in journal} == {"pocl-3.1"}


def test_values_hold_until_the_next_step() -> None:
    assert [search_progress.value_at(CURVE, at_s) for at_s in (0.0, 0.5, 1.0, 3.9, 9.0)] == [2.0, 2.0, 1.5, 1.5, 1.0]
    assert search_progress.seconds_until(CURVE, 1.5) == 1.0
    assert math.isinf(search_progress.seconds_until(CURVE, 0.9))
    last = search_progress.median_curve([CURVE, [(0.0, 2.0), (4.0, 1.2)], [(0.0, 2.0), (4.0, 1.6)]])[-1]
    assert last == (4.0, 1.2)


def test_the_drawing_has_every_curve_within_its_panel() -> None:
    drawing = svg(
        [Panel("a < b", [("one", CURVE), ("two", CURVE)]), Panel("c", [("one", CURVE)])], Axes(0.1, 10, 2), "s"
    )
    lines = ElementTree.fromstring(drawing).findall(".//{*}polyline")
    assert len(lines) == 3
    points = [tuple(map(float, point.split(","))) for line in lines for point in line.attrib["points"].split()]
    assert all(44 <= x <= 288 and 44 <= y <= 180 for x, y in points)
