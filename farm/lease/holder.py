"""Who holds a unit, told to people: a job that renews its lease, or a person who reserved the unit for a time."""

import dataclasses
import datetime

from farm.lease.marker import MarkerState


@dataclasses.dataclass(frozen=True)
class Holder:
    """The holder of a unit at one moment.

    Attributes:
        owner: user and host of a job, or the person who reserved the unit.
        job: what the unit is used for; of a reservation the reason.
        since: when it was taken, by this machine's clock.
        until: until when it stays taken; a job renews that again and again.
    """

    owner: str
    pid: int
    job: str
    since: datetime.datetime
    until: datetime.datetime
    is_reservation: bool = False

    @property
    def remaining_s(self) -> float:
        """Seconds until it ends."""
        return max(0.0, (self.until - _now()).total_seconds())

    @property
    def line(self) -> str:
        """For people: `held by alice@lab (pid 42, tune) since 2026-03-01 12:31:05, for 43 s more unless ...`."""
        if self.is_reservation:
            return f"reserved by {self.owner} until {self.until:%Y-%m-%d %H:%M}: {self.job}"
        return (
            f"held by {self.owner} (pid {self.pid}, {self.job}) since {self.since:%Y-%m-%d %H:%M:%S}, "
            f"for {self.remaining_s:.0f} s more unless it is renewed"
        )


def holder_of(state: MarkerState) -> Holder | None:
    """The holder that a marker names; None where nobody holds the unit."""
    claim = state.claim
    if claim is None or not state.remaining_s:
        return None
    now = _now()
    since, until = (now + datetime.timedelta(seconds=away_s) for away_s in (-state.held_s, state.remaining_s))
    return Holder(claim.owner, claim.pid, claim.job, since, until, claim.is_reservation)


def _now() -> datetime.datetime:
    return datetime.datetime.now().astimezone()
