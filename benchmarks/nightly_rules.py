"""Rules that say which nights of a series are alarms: farm's decision, and those that it is compared with."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from benchmarks.nightly_series import Night, Series
from farm.decision.judge import judge, twin_of
from farm.decision.judgement import Judgement, Verdict
from farm.series import Metric, Point

SIGNS = {Verdict.REGRESSION: 1, Verdict.IMPROVEMENT: -1}
BASELINE_NIGHTS = 7
# Perfherder (Mozilla's performance alerts): means of 12 nights before and 12 from the night on, t above 7, 2 % or more.
PERFHERDER_WINDOW, PERFHERDER_T, PERFHERDER_PERCENT = 12, 7.0, 2.0
# E-divisive (D. Matteson and N. James, JASA 109, 2014): windows of the last nights, permutation test.
DIVISIVE_WINDOW, DIVISIVE_LEAST, DIVISIVE_PERMUTATIONS, DIVISIVE_P = 60, 3, 199, 0.01

Array = npt.NDArray[np.float64]


def farm_rule(units: Sequence[Series]) -> list[Night]:
    """The decision, with the twin's word where there is a second unit."""
    histories: list[list[Point]] = [[] for _ in units]
    found = []
    for number in range(units[0].nights):
        nights = [_measured(unit, history, number) for unit, history in zip(units, histories, strict=True)]
        judgement, point = nights[0]
        if len(units) > 1 and judgement.verdict in (*SIGNS, *PROVISIONAL):
            judgement = judge(histories[0], point, Metric.LATENCY, twin=twin_of(nights[1][0]))
        found.append(Night(SIGNS.get(judgement.verdict, 0), judgement.verdict in PROVISIONAL, point.reruns))
        for history, (_, measured) in zip(histories, nights, strict=True):
            history.append(measured)
    return found


PROVISIONAL = (Verdict.PROVISIONAL_REGRESSION, Verdict.PROVISIONAL_IMPROVEMENT)


def _measured(unit: Series, history: Sequence[Point], number: int) -> tuple[Judgement, Point]:
    """A night, measured again as the decision asks."""
    point = unit.night(number)
    judgement = judge(history, point, Metric.LATENCY)
    while judgement.more:
        point = unit.again(point, judgement.more)
        judgement = judge(history, point, Metric.LATENCY)
    return judgement, point


def fixed_rule(percent: float) -> Callable[[Sequence[Series]], list[Night]]:
    """Tonight against the median of the last seven nights, by a fixed threshold; the device state is not looked at."""

    def rule(units: Sequence[Series]) -> list[Night]:
        values = _values(units[0])
        found = []
        for number, value in enumerate(values):
            before = values[max(0, number - BASELINE_NIGHTS) : number]
            change = 100 * (value / np.median(before) - 1) if len(before) else 0.0
            found.append(Night(int(np.sign(change)) if abs(change) >= percent else 0))
        return found

    return rule


def perfherder_rule(units: Sequence[Series]) -> list[Night]:
    """The night that the t statistic points at is told twelve nights later, when the later window is full."""
    values = _values(units[0])
    window, found = PERFHERDER_WINDOW, [Night(0)] * len(values)
    last = -window
    for number in range(2 * window - 1, len(values)):
        middle = number - window + 1
        before, after = values[middle - window : middle], values[middle : number + 1]
        error = math.sqrt((before.var(ddof=1) + after.var(ddof=1)) / window)
        change = after.mean() - before.mean()
        is_alarm = abs(change) > PERFHERDER_T * error and abs(change) >= PERFHERDER_PERCENT / 100 * before.mean()
        if is_alarm and number - last >= window:
            found[number], last = Night(int(np.sign(change))), number
    return found


def divisive_rule(units: Sequence[Series]) -> list[Night]:
    """E-divisive on the last nights, each night; a change point that was not there before is an alarm."""
    values = np.log(_values(units[0]))
    random = np.random.default_rng(len(values))
    start, found = 0, [Night(0)] * len(values)
    for number in range(2 * DIVISIVE_LEAST, len(values)):
        part = values[max(start, number + 1 - DIVISIVE_WINDOW) : number + 1]
        at = _divided(part, random) if len(part) >= 2 * DIVISIVE_LEAST else None
        if at is not None:
            found[number] = Night(int(np.sign(part[at:].mean() - part[:at].mean())))
            start = number + 1 - len(part) + at
    return found


def _divided(values: Array, random: np.random.Generator) -> int | None:
    """The change point of some values, if a permutation of them seldom has one as clear."""
    at, energy = _energy(values)
    beyond = sum(_energy(random.permutation(values))[1] >= energy for _ in range(19))
    if beyond > 1:  # hopeless: the whole number of permutations would say the same
        return None
    beyond += sum(_energy(random.permutation(values))[1] >= energy for _ in range(DIVISIVE_PERMUTATIONS - 19))
    return at if (beyond + 1) / (DIVISIVE_PERMUTATIONS + 1) <= DIVISIVE_P else None


def _energy(values: Array) -> tuple[int, float]:
    """The split with the largest scaled energy distance, and that distance."""
    distances = np.abs(np.subtract.outer(values, values))
    total = distances.cumsum(axis=0).cumsum(axis=1)
    sizes = np.arange(DIVISIVE_LEAST, len(values) - DIVISIVE_LEAST + 1)
    inner = total[sizes - 1, sizes - 1]
    cross = total[sizes - 1, -1] - inner
    outer = total[-1, -1] - 2 * cross - inner
    rest = len(values) - sizes
    energy = 2 * cross / (sizes * rest) - inner / sizes**2 - outer / rest**2
    scaled = energy * sizes * rest / len(values)
    best = int(np.argmax(scaled))
    return int(sizes[best]), float(scaled[best])


def _values(unit: Series) -> Array:
    """Each night's figure, hot or not."""
    found = []
    for number in range(unit.nights):
        point = unit.night(number)
        found.append(point.value if point.value is not None else unit.spoiled_value(number))
    return np.array(found)


RULES: dict[str, tuple[int, Callable[[Sequence[Series]], list[Night]]]] = {
    "farm, with a twin": (2, farm_rule),
    "farm, a single unit": (1, farm_rule),
    "fixed 5 %": (1, fixed_rule(5)),
    "fixed 10 %": (1, fixed_rule(10)),
    "t rule (Perfherder's)": (1, perfherder_rule),
    "E-divisive": (1, divisive_rule),
}
