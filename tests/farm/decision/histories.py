"""Histories for the tests of the decision."""

import dataclasses
from collections.abc import Sequence

import numpy as np

from farm.decision.judgement import Judgement
from farm.decision.regression import judge_series
from farm.rows.series import Metric, Point

BLOCKS = 6
STEADY = Point(run=0, time="", runs=(), identity="one")


def night(run: int, level: float = 10.0, noise: float = 0.01, like: Point = STEADY) -> Point:
    """A night of six blocks; the same each time it is asked for."""
    random = np.random.default_rng([run, 5])
    runs = tuple(float(level * np.exp(each)) for each in random.normal(0, noise * BLOCKS**0.5, BLOCKS))
    return dataclasses.replace(like, run=run, time=f"night {run}", runs=runs, arms=("a", "b") * 3)


def history(nights: int = 40, level: float = 10.0, noise: float = 0.01, like: Point = STEADY) -> list[Point]:
    """So many of them."""
    return [night(run, level, noise, like) for run in range(nights)]


def with_more_blocks(point: Point, count: int, level: float, noise: float = 0.01) -> Point:
    """With so many more blocks at a level."""
    random = np.random.default_rng([point.run, len(point.runs), 6])
    more = (float(level * np.exp(each)) for each in random.normal(0, noise * BLOCKS**0.5, count))
    return dataclasses.replace(point, runs=(*point.runs, *more), reruns=point.reruns + count)


def settled(before: Sequence[Point], tonight: Point, level: float) -> tuple[Judgement, Point]:
    """The judgement when all that it asks for was measured, at a level."""
    judgement = judge_series(before, tonight, Metric.LATENCY)
    while judgement.more:
        tonight = with_more_blocks(tonight, judgement.more, level)
        judgement = judge_series(before, tonight, Metric.LATENCY)
    return judgement, tonight
