"""The nights of a series that can be compared with each other, as arrays of logarithms."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence

import numpy as np

from farm.decision.noise import Array, Model, centre, fit
from farm.decision.rules import Rules
from farm.decision.samples import logarithms
from farm.decision.steps import Step, find_steps
from farm.results import Status
from farm.series import Point, typical

FINITE_TIMES = 2  # windows of nights that the noise is estimated from


def is_figure(point: Point) -> bool:
    """Whether a night has a figure that can be compared."""
    return point.status in (Status.OK, Status.WRONG_RESULT) and len(logarithms(point.runs)) > 0


def comparable(history: Sequence[Point], identity: str) -> list[Point]:
    """The nights with a figure of one piece of hardware, since it was last exchanged."""
    found: list[Point] = []
    for point in reversed(history):
        if point.identity != identity and point.identity and identity:
            break
        if is_figure(point):
            found.append(point)
    return found[::-1]


@dataclasses.dataclass(frozen=True)
class Stretch:
    """Comparable nights, oldest first; `levels` are the logarithms of their figures, `counts` their measurements."""

    points: Sequence[Point]
    levels: Array
    counts: Array
    steps: Sequence[Step]

    @classmethod
    def of(cls, points: Sequence[Point]) -> Stretch:
        """With the steps of its history."""
        levels = np.array([level(point) for point in points], np.float64)
        counts = np.array([len(logarithms(point.runs)) for point in points], np.float64)
        return cls(
            points, levels, counts, find_steps(levels, np.minimum(counts, np.median(counts) if len(counts) else 1))
        )

    @property
    def start(self) -> int:
        """The first night after the last step."""
        return self.steps[-1].at if self.steps else 0

    def model(self, rules: Rules) -> Model:
        """What the newest nights vary by, steps taken out."""
        edges = [0, *(step.at for step in self.steps), len(self.levels)]
        parts = [self.levels[start:end] for start, end in itertools.pairwise(edges)]
        flat = np.concatenate([part - centre(part) for part in parts]) if parts else self.levels
        newest = slice(-FINITE_TIMES * rules.window, None)
        residuals = [logs - logs.mean() for logs in (logarithms(point.runs) for point in self.points[newest])]
        return fit(flat[newest], residuals, rules)


def level(point: Point) -> float:
    """Logarithm of a night's figure."""
    return typical(list(logarithms(point.runs)))
