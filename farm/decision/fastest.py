"""Which of several is the fastest, by blocks that they ran in turns. Pure functions.

Each turn has a block of every one, in random order, so that what disturbs one disturbs the others too. The leader has
the lowest median. It is the fastest only where each other one's time over its own is above 1 with its whole interval;
the intervals share one error of 5 %, since the leader is chosen from the same blocks.
"""

import statistics
from collections.abc import Hashable, Mapping, Sequence
from typing import TypeVar

from farm.rows.engines import Standing
from runtime.statistics import signed_ranks

ERROR = 0.05

Name = TypeVar("Name", bound=Hashable)


def standings(blocks_ms: Mapping[Name, Sequence[float]]) -> dict[Name, Standing]:
    """The standing of each by the median times of its blocks, one a turn, all of the same turns."""
    if not blocks_ms:
        return {}
    leader = min(blocks_ms, key=lambda name: statistics.median(blocks_ms[name]))
    others = {name: ratio_over(times, blocks_ms[leader], len(blocks_ms) - 1) for name, times in blocks_ms.items()}
    is_fastest = len(blocks_ms) > 1 and all(_is_slower(others[name]) for name in blocks_ms if name != leader)
    return {**others, leader: Standing(leads=True, is_fastest=is_fastest)}


def least_turns(count: int) -> int:
    """The fewest turns that give every interval between so many."""
    return signed_ranks.least_pairs(ERROR / max(count - 1, 1))


def ratio_over(own_ms: Sequence[float], other_ms: Sequence[float], comparisons: int) -> Standing:
    """Times over another's by blocks of the same turns; so many such intervals share the error."""
    error = ERROR / max(comparisons, 1)
    found = signed_ranks.paired_ratio(other_ms, own_ms, 1 - error)
    is_enough = len(own_ms) >= signed_ranks.least_pairs(error)
    return Standing(ratio=found.value, ratio_ci=(found.low, found.high) if is_enough else None)


def _is_slower(standing: Standing) -> bool:
    return standing.ratio_ci is not None and standing.ratio_ci[0] > 1.0
