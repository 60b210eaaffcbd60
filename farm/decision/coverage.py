"""How honest intervals are: comparisons of a thing with itself, whose 95 % intervals must cover 1. Pure functions."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Sequence

from farm.rows.compare import CompareRow, ComparisonOutcome

CLAIMED = 0.95  # of the intervals cover the truth


@dataclasses.dataclass(frozen=True)
class Coverage:
    """What comparisons of a thing with itself gave.

    Attributes:
        comparisons: how many had an interval.
        covering: of those, how many intervals hold 1.
        share_ci: 95 % interval of the share that covers (C. Clopper and E. Pearson, 1934).
        width_percent: median width of the intervals.
        told: how often a difference was told that counts.
    """

    comparisons: int
    covering: int
    share_ci: tuple[float, float]
    width_percent: float
    told: int

    @property
    def is_honest(self) -> bool:
        """Whether the share can be as high as the intervals claim; few replicates make them a little too wide."""
        return self.share_ci[1] >= CLAIMED


def coverage(rows: Sequence[CompareRow]) -> Coverage | None:
    """Counts the rows of one model, runtime and unit; None where none has an interval."""
    intervals = [row.ratio_ci for row in rows if row.ratio_ci]
    if not intervals:
        return None
    covering = sum(low <= 1.0 <= high for low, high in intervals)
    told = sum(row.outcome in (ComparisonOutcome.SLOWER, ComparisonOutcome.FASTER) for row in rows)
    width = 100.0 * statistics.median(high - low for low, high in intervals)
    return Coverage(len(intervals), covering, _share_interval(covering, len(intervals)), width, told)


def _share_interval(count: int, of: int) -> tuple[float, float]:
    """Exact interval of a share (C. Clopper and E. Pearson, 1934)."""
    from scipy import special  # takes long to import, for most commands in vain

    tail = (1 - CLAIMED) / 2
    low = float(special.betaincinv(count, of - count + 1, tail)) if count else 0.0
    high = float(special.betaincinv(count + 1, of - count, 1 - tail)) if count < of else 1.0
    return low, high
