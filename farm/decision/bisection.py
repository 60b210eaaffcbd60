"""Finds the commit at which a time changed, by halving, though every measurement is noisy. Pure.

Each commit is compared with the good end. Its ratio is told from the whole change on the scale of logarithms: below
half of the change it is like the good end, above half like the bad end; where the interval holds the half, nothing is
told, and the commit is measured longer, then passed over as `git bisect skip` does.
"""

from __future__ import annotations

import dataclasses
import enum
import math
from collections.abc import Mapping, Sequence


class Finding(enum.StrEnum):
    """What a commit is found to be."""

    GOOD = "good"
    BAD = "bad"
    SKIPPED = "skipped"


@dataclasses.dataclass(frozen=True)
class Change:
    """A time over that of the good end, with its 95 % interval."""

    ratio: float
    low: float
    high: float

    def is_beyond(self, margin: float) -> bool:
        """Whether the whole interval is above 1 + margin, or below 1 / (1 + margin)."""
        return self.low > 1 + margin or self.high < 1 / (1 + margin)


def finding(change: Change, whole: Change) -> Finding | None:
    """Whether a commit is like the good end or like the bad one; None while its interval holds the half of `whole`."""
    half = math.sqrt(whole.ratio)
    if change.low <= half <= change.high:
        return None
    return Finding.BAD if (change.ratio > half) == (whole.ratio > 1) else Finding.GOOD


@dataclasses.dataclass(frozen=True)
class Bisection:
    """Commits from the good end to the bad one, both included, and what was found of those between them."""

    commits: Sequence[str]
    findings: Mapping[str, Finding] = dataclasses.field(default_factory=dict)

    @property
    def last_good(self) -> int:
        """The place of the newest commit before the first bad one that is good."""
        good = [place for place in range(self.first_bad) if self._at(place) == Finding.GOOD]
        return max(good)

    @property
    def first_bad(self) -> int:
        """The place of the oldest commit that is bad."""
        return min(place for place in range(len(self.commits)) if self._at(place) == Finding.BAD)

    @property
    def suspects(self) -> Sequence[str]:
        """The commits, oldest first, one of which made the change; one alone where none was skipped."""
        return self.commits[self.last_good + 1 : self.first_bad + 1]

    @property
    def next(self) -> str | None:
        """The commit to measure next, the middle of those that are left; None: there is nothing more to learn."""
        between = range(self.last_good + 1, self.first_bad)
        middle = (self.last_good + self.first_bad) / 2
        left = [place for place in between if self._at(place) is None]
        return self.commits[min(left, key=lambda place: abs(place - middle))] if left else None

    def having(self, commit: str, found: Finding) -> Bisection:
        """The same with one more finding."""
        return dataclasses.replace(self, findings={**self.findings, commit: found})

    def _at(self, place: int) -> Finding | None:
        if place in (0, len(self.commits) - 1):
            return Finding.BAD if place else Finding.GOOD
        return self.findings.get(self.commits[place])
