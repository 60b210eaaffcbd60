"""Duets of a nightly run: the software of an earlier night and tonight's, measured in turns in the same minutes."""

import enum
import statistics

from pydantic import Field

from farm.rows.core_waits import busy_text, highest_share, is_mostly_waiting, mean_share
from farm.rows.nightly_block import Block
from farm.rows.record import Figure, Record

NO_EARLIER = "there is no bundle of an earlier night to compare with"  # why there is no duet in a first night


class SoftwareVerdict(enum.StrEnum):
    """What a duet says of tonight's software; `NONE` where none was made."""

    SLOWER = "slower"
    FASTER = "faster"
    SAME = "same"
    UNDECIDED = "undecided"
    NONE = ""


class DuetPair(Record):
    """A fresh process of each software, run in turns; `before` is that of the run `against`."""

    against: int
    before: Block
    tonight: Block

    @property
    def waited_share(self) -> float | None:
        """The share of their time that rounds waited for a core, on the side that waited more."""
        return highest_share((self.before.waited_share, self.tonight.waited_share))

    @property
    def times_ms(self) -> tuple[float, float] | None:
        """The median round of the earlier software and of tonight's.

        None where heat spoiled the pair, or rounds mostly waited for a core: what they waited hides what they did.
        """
        if self.before.throttled or self.tonight.throttled or is_mostly_waiting(self.waited_share):
            return None
        return statistics.median(self.before.samples), statistics.median(self.tonight.samples)


class DuetFigures(Record):
    """A duet and its verdict.

    `against` is the run whose software was measured, with its start and commit. `suspected`: the nights before said
    that something has changed; else it was a scheduled look. `ratio` is tonight's time over that of the earlier
    software, with its 95 % interval. `identical`: both are the same to the byte, so that nothing was measured.
    `settled_by` is the run whose duet said of the same suspicion that it is not the software: a glance was enough.
    `environment` names what else of the unit is different. `fallback` says why no duet could be made.
    `earlier_pairs`: so many of the nights before, which left the same suspicion undecided, were judged with these.
    `claim` is the run that began what other builds are to decide, since builds vary by `builds` (a share; one standard
    deviation) and this difference is not beyond that.
    `seconds` is what it took, `share` that over the time of the case's blocks.
    """

    against: int | None = None
    against_time: str = ""
    against_commit: str = ""
    suspected: bool = False
    verdict: SoftwareVerdict = SoftwareVerdict.NONE
    ratio: Figure = None
    ratio_ci: tuple[float, float] | None = None
    pairs: tuple[DuetPair, ...] = ()
    earlier_pairs: int = Field(default=0, ge=0)
    identical: bool = False
    settled_by: int | None = None
    environment: tuple[str, ...] = ()
    fallback: str = ""
    claim: int | None = None
    builds: Figure = None
    seconds: float = Field(default=0.0, ge=0.0)
    share: Figure = None

    @property
    def is_told(self) -> bool:
        """Whether there is anything to say of it: what it found, or why it could not be made."""
        return bool(self.verdict or self.fallback)

    @property
    def left_open(self) -> bool:
        """Whether it asked a suspicion without an answer."""
        return self.suspected and self.verdict == SoftwareVerdict.UNDECIDED and not self.is_claim

    @property
    def is_claim(self) -> bool:
        """Whether it differs by no more than builds do, so that the nights to come decide."""
        return self.claim is not None and self.verdict == SoftwareVerdict.UNDECIDED

    @property
    def busy(self) -> str:
        """Says that pairs do not count since the unit was busy with other work; empty where that spoiled none."""
        waits = [pair.waited_share for pair in self.pairs if is_mostly_waiting(pair.waited_share)]
        return f"{busy_text(mean_share(waits))} in {len(waits)} of {len(self.pairs)} pairs" if waits else ""

    @property
    def good_pairs(self) -> list[tuple[float, float]]:
        """The times of all pairs that nothing spoiled."""
        return [times for pair in self.pairs if (times := pair.times_ms)]
