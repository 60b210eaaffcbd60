"""A stand-in for duets in simulations: what a unit's nights say when unusual ones are settled by duets.

The software of a week ago (of a month ago where a series moves slowly) and tonight's run in pairs, until their ratio is
certain, or clearly less than half of what history suspects. The interval is that of Wilcoxon's signed ranks; its error
is spent over the looks (K. Lan, D. DeMets, "Discrete sequential boundaries for clinical trials", 1983).
"""

from __future__ import annotations

import bisect
import dataclasses
import functools
import math
from collections.abc import Callable

import numpy as np

from benchmarks.simulated_series import BLOCKS, SimulatedSeries
from benchmarks.unusual_nights import rarity
from benchmarks.worlds.noise import Array
from farm.rows.series import trimmed_mean
from tuner.statistics import ratio_of_pairs

FIRST = 3  # pairs, which end most suspicions
LOOKS = (14, 28, 56)  # pairs in all
ERROR = 0.001  # of both sides together and all looks of a duet
COST = 0.17  # of a night's blocks, on average, when nothing changes
USUAL_PAIRS, USUAL_DUETS, LAST_DUETS = 5.0, 3.0, 8  # what duets of a series take: a prior, its weight; the last ones
WEEK, MONTH = 7, 30
SMALLEST = 0.02
HALF, LEAST = 0.5, 0.025

Duet = Callable[[int], Array]  # so many pairs -> their ratios


@dataclasses.dataclass(frozen=True)
class DuetNight:
    """What a night's duet says of the software: 1 slower, -1 faster, 0 nothing; and how many pairs it took."""

    change: int
    pairs: int


def settle(duet: Duet, suspected: float, either: bool = False) -> DuetNight:
    """Runs a duet.

    Args:
        suspected: the change of the logarithm that history suspects.
        either: the change may also be one to the other side.
    """
    ratios = duet(FIRST)
    for pairs in LOOKS:
        change = float(np.mean(np.log(ratios)))
        shown = abs(change) if either else change * math.copysign(1.0, suspected)
        if shown < max(HALF * abs(suspected), LEAST):
            return DuetNight(0, len(ratios))
        ratios = np.concatenate([ratios, duet(pairs - len(ratios))])
        ratio = ratio_of_pairs(list(ratios), [1.0] * pairs, 1 - ERROR / len(LOOKS))
        if ratio and not ratio.low <= 1 <= ratio.high and abs(math.log(ratio.value)) >= SMALLEST:
            return DuetNight(int(np.sign(ratio.value - 1)), pairs)
    return DuetNight(0, len(ratios))


def duet_rule(series: SimulatedSeries, begin: int = 0) -> tuple[list[int], int]:
    """The alarms of a series' nights, where duets settle unusual nights from `begin` on; and the pairs spent."""
    points = [series.night(number) for number in range(series.nights)]
    measured = [number for number, point in enumerate(points) if point.runs]
    levels = np.log([trimmed_mean(points[number].runs) for number in measured])
    found = rarity(levels)
    alarms, duets = [0] * series.nights, list[int]()
    for place in range(bisect.bisect_left(measured, begin), len(measured)):
        last = duets[-LAST_DUETS:]
        pairs = (sum(last) + USUAL_PAIRS * USUAL_DUETS) / (len(last) + USUAL_DUETS)
        share = COST * BLOCKS / 2 / pairs
        if found.least[place] > share:
            continue
        is_sudden = min(found.moved[place], found.new[place]) <= share
        since = measured[max(place - (WEEK if is_sudden else MONTH), 0)]
        suspected = levels[place] - float(np.median(levels[max(place - MONTH, 0) : place]))
        duet = functools.partial(series.duet, measured[place], since)
        told = settle(duet, suspected, either=bool(found.new[place] <= share))
        alarms[measured[place]] = told.change
        duets.append(told.pairs)
    return alarms, sum(duets)


def cost(pairs: int, nights: int) -> float:
    """Blocks of duets as a share of the nights' own."""
    return 2 * pairs / (nights * BLOCKS)
