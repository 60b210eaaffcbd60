"""How often would the decision cry for nothing? Asked of the farm's own nights, by their A/A controls.

The blocks of a night carry two labels for one thing. For each night the blocks under b stand for "tonight" and those
under a of all other nights of the same stretch, in which nothing changed, for its baseline. What the decision would
call a change there is a false alarm. A night under a single label has half of the measurements: what is found errs on
the side of caution.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np
from scipy import stats

from farm.decision.noise import Array, Model, centre, fit
from farm.decision.rules import RULES, Rules
from farm.decision.samples import logarithms
from farm.decision.stretch import Stretch, comparable
from farm.decision.timed import threshold
from farm.nightly.night import ControlReport
from farm.series import Nature, Point, Series, typical

NIGHTS_PER_WEEK = 7
LEAST_NIGHTS = 8
TAIL = 0.025


def false_alarms(series: Series, rules: Rules = RULES) -> ControlReport | None:
    """What is to be expected of all these series together; None as long as no series has nights enough to tell."""
    counts = [
        _counted(points, rules, math.log(rules.smallest[key.metric]))
        for key, points in series.items()
        if key.metric.info.nature == Nature.TIMED
    ]
    comparisons, alarms = (sum(column) for column in zip(*counts, strict=True)) if counts else (0, 0)
    if not comparisons:
        return None
    per_week = NIGHTS_PER_WEEK * len(series) / comparisons
    low = stats.chi2.ppf(TAIL, 2 * alarms) / 2 if alarms else 0.0
    high = stats.chi2.isf(TAIL, 2 * (alarms + 1)) / 2
    return ControlReport(comparisons, alarms, alarms * per_week, float(low) * per_week, float(high) * per_week)


def _counted(points: Sequence[Point], rules: Rules, smallest: float) -> tuple[int, int]:
    """Comparisons and alarms of a series."""
    if not points:
        return 0, 0
    nights = [point for point in comparable(points, points[-1].identity) if _arm(point, "a") and _arm(point, "b")]
    stretch = Stretch.of(nights)
    edges = [0, *(step.at for step in stretch.steps), len(nights)]
    found = [_stretch(nights[start:end], rules, smallest) for start, end in itertools.pairwise(edges)]
    return sum(count for count, _ in found), sum(alarms for _, alarms in found)


def _stretch(nights: Sequence[Point], rules: Rules, smallest: float) -> tuple[int, int]:
    if len(nights) < LEAST_NIGHTS:
        return 0, 0
    before, now = (np.array([typical(_arm(point, arm)) for point in nights]) for arm in "ab")
    residuals = [logs - logs.mean() for logs in (logarithms(point.runs) for point in nights)]
    model = fit(before - centre(before), [each for each in residuals if len(each) > 1], rules)
    changes = now - _centres_without(before)
    beyond = _beyond(changes, model, len(nights), float(np.median([len(each) for each in residuals])), rules, smallest)
    if any(point.passive or point.spoiled for point in nights):
        beyond = beyond[1:] & beyond[:-1] & (np.sign(changes[1:]) == np.sign(changes[:-1]))
    return len(nights), int(beyond.sum())


def _beyond(changes: Array, model: Model, nights: int, count: float, rules: Rules, smallest: float) -> np.ndarray:
    half = max(int(count / 2), 1)
    error = math.sqrt(model.variance([half]) + model.baseline_variance(nights - 1, half))
    edge = max(threshold(rules.confirm, model) * error, smallest)
    return np.abs(changes) >= edge


def _centres_without(levels: Array) -> Array:
    """For each night the mean of all others."""
    return np.asarray((levels.sum() - levels) / (len(levels) - 1))


def _arm(point: Point, arm: str) -> list[float]:
    """Logarithms of a night's first measurements under a label."""
    first = len(point.runs) - point.reruns
    chosen = [run for run, label in zip(point.runs[:first], point.arms, strict=False) if label == arm]
    return list(logarithms(chosen))
