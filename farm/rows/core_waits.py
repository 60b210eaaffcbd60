"""How much of their time rounds waited for a core, because of other work on the unit."""

import statistics
from collections.abc import Iterable

# Of their time. A driver's thread that has nothing to do may wait in vain: rounds of one that work on one thread of two
# waited for 50 to 56 % beside other programs, and took no longer than alone; rounds that took twice as long, 62 %.
MOSTLY = 0.6


def is_mostly_waiting(share: float | None) -> bool:
    """Whether rounds waited for more than three fifths of their time; not where nothing is known."""
    return share is not None and share > MOSTLY


def busy_text(share: float | None) -> str:
    """Says that rounds mostly waited; empty where they did not, or nothing is known."""
    if share is None or not is_mostly_waiting(share):
        return ""
    return f"the unit was busy with other work: rounds waited {100 * share:.0f} % of their time for a core"


def highest_share(shares: Iterable[float | None]) -> float | None:
    """The largest of those that are known; None where none is."""
    return max((share for share in shares if share is not None), default=None)


def mean_share(shares: Iterable[float | None]) -> float | None:
    """The mean of those that are known; None where none is."""
    known = [share for share in shares if share is not None]
    return statistics.fmean(known) if known else None
