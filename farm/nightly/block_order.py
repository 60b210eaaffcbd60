"""The order in which a nightly run measures the blocks of its cases. Pure functions.

Every case is measured in blocks (some rounds in a row), spread over the whole run: each repeat visits all cases of a
unit in a random order of its own, so that drifts during the night (heat, battery, other jobs) affect every case alike.
The blocks of a case carry the labels a and b, one of each in every two repeats: two names of the very same thing (A/A
control).
"""

import dataclasses
import random
from collections.abc import Mapping, Sequence

from farm.rows.series import Case

ARMS = ("a", "b")


@dataclasses.dataclass(frozen=True)
class PlannedBlock:
    """One block of one case that is to be measured; `arm` is its label, a or b."""

    case: Case
    repeat: int
    arm: str


def block_order(cases: Sequence[Case], repeats: int, seed: int) -> list[PlannedBlock]:
    """All blocks of a unit's cases, in a random order that depends on the seed and the unit alone."""
    random_order = random.Random(f"{seed}/{cases[0].unit if cases else ''}")  # its order is no secret
    arms = {case: _arms(repeats, random_order) for case in cases}
    return [
        PlannedBlock(case, repeat, arms[case][repeat])
        for repeat in range(repeats)
        for case in random_order.sample(list(cases), len(cases))
    ]


def _arms(repeats: int, random_order: random.Random) -> list[str]:
    """Labels in pairs of a and b, each pair in random order."""
    return [arm for _ in range(0, repeats, 2) for arm in random_order.sample(ARMS, 2)][:repeats]


def expected_duration_s(cases: Sequence[Case], repeats: int, block_s: Mapping[Case, float]) -> float | None:
    """Expected duration of a unit's night, in seconds, from the time that a block of each case took before.

    New cases count as the mean of the others; None where no case is known.
    """
    known_s = [block_s[case] for case in cases if case in block_s]
    if not known_s:
        return None
    mean_s = sum(known_s) / len(known_s)
    return repeats * sum(block_s.get(case, mean_s) for case in cases)
