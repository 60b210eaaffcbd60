"""Says how unusual each night of a series is by its own past, so that a duet is spent where it may pay.

The size of a night's move is ranked among those of the nights before it. So noise that is heavy-tailed, grows, or has
several levels makes no more nights unusual than a quiet one does. Nothing here says what changed.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from farm.decision.baseline import distances, past_values
from farm.decision.noise import Array

PAST_NIGHTS, LEAST_PAST = 90, 5
SETTLED_NIGHTS = 20  # until then each level is a new one
SLOW_NIGHTS, SLOW_BEHIND = 8, 30
# How the share of unusual nights is divided: moves by their number of nights, new levels, slow moves; together 1.
MOVES = {1: 0.45, 2: 0.1, 3: 0.1}
NEW, SLOW = 0.25, 0.1
LARGEST = 0.2  # what the largest size so far counts as: it is rarer than one in so many, by how much nobody knows


@dataclasses.dataclass(frozen=True)
class Rarity:
    """For each night of a series, about which share of nights is as unusual as it when nothing changes.

    Attributes:
        moved: by how far the last one, two or three nights lie from the median of a month.
        new: by how far tonight's level lies from all that the series had; it may have several, so that this is no move.
        slow: by how far a week's mean has left the month before last's.
    """

    moved: Array
    new: Array
    slow: Array

    @property
    def least(self) -> Array:
        """Of the most unusual of the three."""
        return np.asarray(np.minimum.reduce([self.moved, self.new, self.slow, np.ones(len(self.new))]))


def rarity(levels: Array) -> Rarity:
    """Ranks each night of a series among those before it; 1 where these are too few.

    `levels`: logarithms of nights' figures, oldest first.
    """
    return Rarity(
        moved=np.min(
            [_rank(np.abs(distances(levels, nights, nights))) / part for nights, part in MOVES.items()], axis=0
        ),
        new=_rank(_newness(levels)) / NEW,
        slow=_rank(np.abs(distances(levels, SLOW_NIGHTS, SLOW_BEHIND))) / SLOW,
    )


def _newness(levels: Array) -> Array:
    """How far each night lies from the nearest of the nights before it."""
    gaps = np.abs(past_values(levels, PAST_NIGHTS)[: len(levels)] - levels[:, None])
    nearest = np.min(np.where(np.isnan(gaps), np.inf, gaps), axis=1)
    return np.where(np.arange(len(levels)) < SETTLED_NIGHTS, np.nan, nearest)


def _rank(sizes: Array) -> Array:
    """The share of past sizes that are no smaller than each; 1 where there are fewer than five."""
    past = past_values(sizes, PAST_NIGHTS)[: len(sizes)]
    known, beyond = np.isfinite(past).sum(axis=1), (past >= sizes[:, None]).sum(axis=1)
    return np.where((known < LEAST_PAST) | np.isnan(sizes), 1.0, (beyond + LARGEST) / (known + 1))
