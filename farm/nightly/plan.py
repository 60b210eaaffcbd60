"""What a nightly run measures, and in which order. Pure.

Every case is measured in blocks, spread over the whole run: each repeat visits all cases of a unit in an order of its
own, so that what drifts during the night (heat, battery, other jobs) meets every case alike. The blocks of a case carry
the labels a and b, one of each in every two repeats: two names of the very same thing (A/A control).
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Mapping, Sequence

from farm.rows.series import Case

ARMS = ("a", "b")


@dataclasses.dataclass(frozen=True)
class Turn:
    """One block of one case."""

    case: Case
    repeat: int
    arm: str


def turns(cases: Sequence[Case], repeats: int, seed: int) -> list[Turn]:
    """All blocks of a unit's cases, in a random order that hangs on the seed and the unit alone."""
    drawn = random.Random(f"{seed}/{cases[0].unit if cases else ''}")  # its order is no secret
    arms = {case: _arms(repeats, drawn) for case in cases}
    return [
        Turn(case, repeat, arms[case][repeat])
        for repeat in range(repeats)
        for case in drawn.sample(list(cases), len(cases))
    ]


def _arms(repeats: int, drawn: random.Random) -> list[str]:
    """Labels in pairs, each pair in either order."""
    return [arm for _ in range(0, repeats, 2) for arm in drawn.sample(ARMS, 2)][:repeats]


def expected_s(cases: Sequence[Case], repeats: int, block_s: Mapping[Case, float]) -> float | None:
    """How long a unit will take, by how long a block of each case took before; new cases count as the average.

    None where no case is known.
    """
    known = [block_s[case] for case in cases if case in block_s]
    if not known:
        return None
    typical_s = sum(known) / len(known)
    return repeats * sum(block_s.get(case, typical_s) for case in cases)
