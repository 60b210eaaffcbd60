"""The exclusive, expiring right to use a unit: a lock file on this host, and a marker on the unit for other hosts.

    with lease.acquire(unit, transport, job="tune resnet50") as held:
        ...
        held.check()  # before whatever a successor must not find overwritten

The lease is renewed by a thread while the block lasts. A holder that dies leaves a marker that counts no longer than
the lease; on its own host not even that, since the kernel unlocked its file. Each lease has a token, higher than all
before: a holder that wakes up late finds a higher one and gets a LeaseLostError.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import getpass
import os
import secrets
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from farm import safe_text
from farm.config.inventory import Unit
from farm.lease import host_lock, leftovers
from farm.lease.marker import Claim, Marker, Seen
from farm.transport.base import Transport
from runtime.errors import FarmError, JobError, LeaseLostError, UnitBusyError

JOIN_S = 5.0
CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)  # on macOS the latter counts suspended time
Connect = Callable[[], Transport]


@dataclasses.dataclass(frozen=True)
class Terms:
    """How long a lease counts from its last renewal, how often it is renewed, and again after a failure."""

    lease_s: float = 60.0
    renew_s: float = 15.0
    retry_s: float = 3.0
    poll_s: float = 2.0


TERMS = Terms()


class Lease:
    """A lease that is held; made by `acquire`.

    Attributes:
        token: higher than that of every earlier lease of the unit.
        swept: what an earlier holder had left on the unit.
    """

    def __init__(self, unit: str, marker: Marker, seen: Seen, asked_s: float) -> None:
        assert seen.claim
        self.token = seen.token
        self.swept = leftovers.Swept()
        self._unit, self._marker, self._claim = unit, marker, seen.claim
        self._lost = ""
        self._trust_from(asked_s)

    @property
    def lost(self) -> str:
        """Why the lease is known to be lost; empty while it is not."""
        return self._lost

    def check(self, certain: bool = False) -> None:
        """Makes sure that nobody else can have the unit.

        It costs nothing for half a lease after a renewal: until then nobody can take it, except by force. `certain`
        asks the unit, and so does any check after that time.

        Raises:
            LeaseLostError: somebody else holds the unit, or did; or it was rebooted.
            JobError: the unit cannot be asked.
        """
        if self._lost:
            raise LeaseLostError(self._lost)
        if certain or now_s() > self._trusted_until_s:
            self.renew()

    def renew(self, marker: Marker | None = None) -> None:
        """Extends the lease; see `check`. It is still ours when it ran out and nobody wanted the unit meanwhile."""
        asked_s = now_s()
        seen = (marker or self._marker).renew(self.token)
        if seen.token != self.token or seen.claim != self._claim:
            raise self._loss(f"{self._unit}: the lease was lost to {_who(seen)}; nothing more is written there")
        if seen.boot != self._claim.boot:
            raise self._loss(f"{self._unit}: was rebooted, which ended the lease")
        self._trust_from(asked_s)

    def end(self) -> None:
        """Gives the unit back, if it can be reached; a successor's lease is another token's."""
        with contextlib.suppress(JobError):
            self._marker.end(self.token)

    def _trust_from(self, asked_s: float) -> None:
        self._trusted_until_s = asked_s + self._claim.lease_s / 2

    def _loss(self, text: str) -> LeaseLostError:
        self._lost = text
        return LeaseLostError(text)


@contextlib.contextmanager
def acquire(
    unit: Unit,
    transport: Transport,
    job: str,
    *,
    connect: Connect | None = None,
    wait_s: float = 0.0,
    terms: Terms = TERMS,
    say: Callable[[str], None] = lambda text: None,
    locks: Path | None = None,
) -> Iterator[Lease]:
    """Holds the lease of a unit.

    Args:
        unit: the unit.
        transport: the way to it.
        job: what it is wanted for, shown to those who wait.
        connect: opens a second way, for the renewing thread; without it both share the first.
        wait_s: how long to wait for a unit that somebody else holds.
        terms: durations.
        say: told once for whom we wait, again when the holder changes.
        locks: folder of the lock files, the user's own by default.

    Raises:
        UnitBusyError: somebody else holds the unit, and still did after `wait_s`.
        JobError: the unit cannot be reached, or keeps no lease.
    """
    deadline_s, told = now_s() + wait_s, ""
    while True:
        with host_lock.locked(host_lock.identity(unit), locks) as lock:
            asked_s, attempt = now_s(), _attempt(transport, job, lock, terms)
            if attempt.won:
                held = Lease(unit.name, Marker(transport), attempt.seen, asked_s)
                with _renewed(held, connect, terms):
                    held.swept = leftovers.sweep(transport)
                    yield held
                return
        if now_s() >= deadline_s:
            raise UnitBusyError(
                f"{unit.name}: {attempt.line}; wait for it (jobs have --wait), or {_force(unit)} ends that job"
            )
        if told != attempt.holder:
            say(f"{unit.name}: waiting, {attempt.line}")
            told = attempt.holder
        time.sleep(min(terms.poll_s, max(0.0, deadline_s - now_s())))


def holder(transport: Transport) -> str:
    """Who holds the unit, since when and until when; empty where nobody does."""
    seen = Marker(transport).look()
    return _holder_line(seen) if seen.remaining_s else ""


def release(unit: Unit, transport: Transport, force: bool = False, locks: Path | None = None) -> str:
    """Ends a lease that its holder left behind, or with `force` any; returns what was done, as a line.

    Raises:
        UnitBusyError: the holder is alive, as far as can be told.
    """
    marker = Marker(transport)
    with host_lock.locked(host_lock.identity(unit), locks) as lock:
        seen = marker.look()
        before = _holder_line(seen)
        if seen.remaining_s and not _is_stale(seen, lock) and not force:
            raise UnitBusyError(f"{unit.name}: {before}; {_force(unit)} ends that job all the same")
        taken = _claimed(transport, "released by hand", lock or "", TERMS, seen)
        if taken is None:
            raise UnitBusyError(f"{unit.name}: was taken by somebody else in this moment")
        swept = leftovers.sweep(transport)
        marker.end(taken.token)
    return f"{unit.name}: {f'freed, was {before}' if seen.remaining_s else 'was free'}{swept.line}"


def now_s() -> float:
    """This host's clock that counts suspended time too, and that nobody sets."""
    return time.clock_gettime(CLOCK)


@dataclasses.dataclass(frozen=True)
class _Attempt:
    """What came of wanting a unit: the marker after it, with our claim if it was won."""

    seen: Seen
    won: bool = False

    @property
    def holder(self) -> str:
        """Identifies the holder."""
        return self.seen.claim.nonce if self.seen.claim else "nobody"

    @property
    def line(self) -> str:
        """Who holds the unit."""
        return _holder_line(self.seen) if self.seen.remaining_s else "being taken or left by another process"


def _attempt(transport: Transport, job: str, lock: str | None, terms: Terms) -> _Attempt:
    """Claims the unit where it is free; without the lock of this host another process is busy with it."""
    seen = Marker(transport).look()
    if lock is None or (seen.remaining_s and not _is_stale(seen, lock)):
        return _Attempt(seen)
    taken = _claimed(transport, job, lock, terms, seen)
    return _Attempt(taken or seen, won=taken is not None)


def _is_stale(seen: Seen, lock: str | None) -> bool:
    """Whether the holder is dead for sure: it held the lock file that is ours now."""
    return lock is not None and seen.claim is not None and seen.claim.lock == lock


def _claimed(transport: Transport, job: str, lock: str, terms: Terms, seen: Seen) -> Seen | None:
    claim = Claim(
        owner=safe_text.word(f"{_user()}@{socket.gethostname()}"),
        pid=os.getpid(),
        job=safe_text.word(job),
        nonce=secrets.token_hex(8),
        lock=lock,
        boot=seen.boot,
        uptime_s=seen.uptime_s,
        lease_s=terms.lease_s,
    )
    after = Marker(transport).claim(claim, seen)
    return after if after.claim == claim else None


def _user() -> str:
    """Who we are; a container's user may have no name."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return f"user {os.getuid()}"


@contextlib.contextmanager
def _renewed(held: Lease, connect: Connect | None, terms: Terms) -> Iterator[None]:
    """Renews a lease by a thread within the block, and ends it after."""
    stop = threading.Event()
    thread = threading.Thread(target=_renew, args=(held, connect, terms, stop), name="lease", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(JOIN_S)
        held.end()


def _renew(held: Lease, connect: Connect | None, terms: Terms, stop: threading.Event) -> None:
    """Renews until told to stop, or until the lease is lost; a unit that cannot be reached is tried again."""
    own: Transport | None = None
    delay_s = terms.renew_s
    while not stop.wait(delay_s) and not held.lost:
        try:
            if connect and own is None:
                own = connect()
            if not stop.is_set():  # to connect may have taken long
                held.renew(Marker(own) if own else None)
            delay_s = terms.renew_s
        except LeaseLostError:
            break
        except FarmError:
            _close(own)
            own, delay_s = None, terms.retry_s
    _close(own)


def _close(transport: Transport | None) -> None:
    if transport is not None:
        with contextlib.suppress(FarmError):
            transport.close()


def _force(unit: Unit) -> str:
    return f"`farm devices release {unit.name} --force`"


def _who(seen: Seen) -> str:
    return f"{seen.claim.owner} ({seen.claim.job})" if seen.claim else "somebody else"


def _holder_line(seen: Seen) -> str:
    """`held by alice@lab (pid 4242, tune resnet50) since 12:31:05, for 43 s more unless it is renewed`."""
    if seen.claim is None:
        return "held by nobody"
    since = datetime.datetime.now().astimezone() - datetime.timedelta(seconds=seen.held_s)
    return (
        f"held by {seen.claim.owner} (pid {seen.claim.pid}, {seen.claim.job}) since {since:%Y-%m-%d %H:%M:%S}, "
        f"for {seen.remaining_s:.0f} s more unless it is renewed"
    )
