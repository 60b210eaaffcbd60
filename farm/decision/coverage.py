"""How honest intervals are: comparisons of a thing with itself, whose 95 % intervals must cover 1. Pure functions."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Sequence

from scipy import stats

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
    share = stats.binomtest(covering, len(intervals)).proportion_ci(CLAIMED, "exact")
    told = sum(row.outcome in (ComparisonOutcome.SLOWER, ComparisonOutcome.FASTER) for row in rows)
    width = 100.0 * statistics.median(high - low for low, high in intervals)
    return Coverage(len(intervals), covering, (float(share.low), float(share.high)), width, told)
