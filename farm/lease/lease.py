"""The exclusive, expiring right to use a unit: a lock file on this host, and a marker on the unit for other hosts.

    with lease.acquire(unit, transport, job="tune resnet50") as held:
        ...
        held.check()  # before whatever a successor must not find overwritten

A thread renews the lease while the block lasts. The marker of a holder that died is valid until its lease expires; on
the holder's own host it is void at once, since the kernel unlocked the lock file. Each lease has a fencing token that
is higher than all before: a holder that continues after its lease expired finds a higher token and gets a
LeaseLostError.
"""

import contextlib
import dataclasses
import os
import secrets
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from farm import host_system, safe_text
from farm.condition import governor
from farm.config.inventory import Unit
from farm.lease import host_lock, labgrid_place, leftovers
from farm.lease.holder import Holder, holder_of
from farm.lease.marker import Claim, Marker, MarkerState
from farm.transport.base import Transport
from runtime.errors import DeviceLostError, FarmError, JobError, LeaseLostError, ProcessEndedError, UnitBusyError

JOIN_S = 5.0
CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)  # on macOS the latter counts suspended time
Connect = Callable[[], Transport]


@dataclasses.dataclass(frozen=True)
class LeaseTerms:
    """Durations of a lease: how long it is valid after a renewal, how often it is renewed, or tried again."""

    lease_s: float = 60.0
    renew_s: float = 15.0
    retry_s: float = 3.0
    poll_s: float = 2.0


TERMS = LeaseTerms()


class Lease:
    """A lease that this process holds; made by `acquire`.

    Attributes:
        token: higher than that of every earlier lease of the unit.
        swept: what an earlier holder had left on the unit.
    """

    def __init__(self, unit: str, marker: Marker, state: MarkerState, asked_s: float) -> None:
        assert state.claim
        self.token = state.token
        self.cleared = leftovers.ClearedLeftovers()
        self._unit, self._marker, self._claim = unit, marker, state.claim
        self._lost = ""
        self._trust_from(asked_s)

    @property
    def lost(self) -> str:
        """Why the lease is known to be lost; empty while it is not."""
        return self._lost

    def check(self, certain: bool = False) -> None:
        """Makes sure that the lease is still held.

        For half a lease after a renewal this costs nothing: until then nobody can take the unit, except by force.
        Later, or with `certain`, the unit is asked.

        Raises:
            LeaseLostError: somebody else holds the unit, or did; or it was rebooted.
            JobError: the unit cannot be asked.
        """
        if self._lost:
            raise LeaseLostError(self._lost)
        if certain or boot_clock_s() > self._trusted_until_s:
            self.renew()

    def renew(self, marker: Marker | None = None) -> None:
        """Extends the lease; see `check`. An expired lease can still be renewed unless another holder has claimed."""
        asked_s = boot_clock_s()
        state = (marker or self._marker).renew(self.token)
        if state.token != self.token or state.claim != self._claim:
            raise self._loss(
                f"{self._unit}: the lease was lost to {_holder_name(state)}; nothing more is written there"
            )
        if state.boot != self._claim.boot:
            raise self._loss(f"{self._unit}: was rebooted, which ended the lease")
        self._trust_from(asked_s)

    def end(self) -> None:
        """Gives the unit back if it can be reached; a successor's lease has another token and is not touched."""
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
    terms: LeaseTerms = TERMS,
    say: Callable[[str], None] = lambda text: None,
    locks: Path | None = None,
) -> Iterator[Lease]:
    """Holds the lease of a unit.

    Args:
        unit: the unit.
        transport: a connection to it.
        job: what the unit is used for, shown to those who wait.
        connect: opens a second connection for the renewing thread; without it both share the first.
        wait_s: how long to wait for a unit that somebody else holds.
        terms: durations.
        say: called with the holder that we wait for, at first and whenever it changes.
        locks: folder of the lock files, the user's own by default.

    Raises:
        UnitBusyError: somebody else holds the unit, or its place in labgrid, and still did after `wait_s`.
        JobError: the unit cannot be reached, or cannot store a lease.
    """
    deadline_s, announced = boot_clock_s() + wait_s, ""
    while True:
        with host_lock.try_lock(host_lock.connection_key(unit), locks) as lock:
            asked_s, attempt = boot_clock_s(), _try_claim(transport, job, lock, terms)
            if attempt.won:
                lease = Lease(unit.name, Marker(transport), attempt.state, asked_s)
                place_s = max(0.0, deadline_s - boot_clock_s())
                with _keep_renewed(lease, connect, terms), labgrid_place.held(unit, name_or_number(), place_s, say):
                    lease.cleared = attempt.cleared or leftovers.clear(transport)
                    yield lease
                return
        if boot_clock_s() >= deadline_s:
            raise UnitBusyError(
                f"{unit.name}: {attempt.line}; wait for it (jobs have --wait), or {how_to_end(unit, attempt.state)}"
            )
        if announced != attempt.holder:
            say(f"{unit.name}: waiting, {attempt.line}")
            announced = attempt.holder
        time.sleep(min(terms.poll_s, max(0.0, deadline_s - boot_clock_s())))


def holder(transport: Transport, unit: Unit | None = None) -> Holder | None:
    """Who holds the unit, since when and until when; None where nobody does.

    Where the unit is given, its place in labgrid is given back if a reservation has expired.
    """
    marker = Marker(transport)
    state = marker.read()
    if unit and unit.labgrid and state.is_expired_reservation and labgrid_place.end_expired(unit):
        marker.end(state.token)  # so that labgrid is not asked at every look
    return holder_of(state)


def release(unit: Unit, transport: Transport, force: bool = False, owner: str = "", locks: Path | None = None) -> str:
    """Ends the lease of a dead holder, the owner's reservation, or with `force` any; returns a line that says so.

    `owner` is by default this process's user and host.

    Raises:
        UnitBusyError: the holder may be alive, or another person has reserved the unit.
    """
    marker = Marker(transport)
    with host_lock.try_lock(host_lock.connection_key(unit), locks) as lock:
        state = marker.read()
        holder_line = _holder_line(state)
        is_own = bool(state.claim and state.claim.is_reservation and state.claim.owner == (owner or owner_name()))
        if state.remaining_s and not (force or is_own or is_stale(state, lock)):
            raise UnitBusyError(f"{unit.name}: {holder_line}; {how_to_end(unit, state)} all the same")
        claimed = _claim(transport, "released by hand", lock or "", TERMS, state)
        if claimed is None:
            raise UnitBusyError(f"{unit.name}: was taken by somebody else in this moment")
        cleared = leftovers.clear(transport)
        place = labgrid_place.release(unit, name_or_number(), owner or owner_name(), force)
        marker.end(claimed.token)
    return f"{unit.name}: {f'freed, was {holder_line}' if state.remaining_s else 'was free'}{place}{cleared.line}"


def boot_clock_s() -> float:
    """Seconds since boot, suspended time included; a clock that nobody can set."""
    return time.clock_gettime(CLOCK)


@dataclasses.dataclass(frozen=True)
class _AcquireAttempt:
    """The result of trying to claim a unit: the marker afterwards, which holds our claim if we won.

    `cleared` is None where nothing was cleared yet.
    """

    state: MarkerState
    won: bool = False
    cleared: leftovers.ClearedLeftovers | None = None

    @property
    def holder(self) -> str:
        """What tells this holder from any other."""
        return self.state.claim.nonce if self.state.claim else "nobody"

    @property
    def line(self) -> str:
        """Describes who holds the unit."""
        return _holder_line(self.state) if self.state.remaining_s else "being taken or left by another process"


def _try_claim(transport: Transport, job: str, lock: str | None, terms: LeaseTerms) -> _AcquireAttempt:
    """Claims the unit if it is free; `lock` is None where another process of this host has the unit.

    One command where the last holder ended its lease; else what there is says whether to claim.
    """
    if lock is None:
        return _AcquireAttempt(Marker(transport).read())
    wanted = _own_claim(job, lock, terms)
    state, output = Marker(transport).take(wanted, leftovers.CLEAR, governor.SYSFS)
    if _holds(state, wanted):
        return _AcquireAttempt(state, won=True, cleared=leftovers.parse(output))
    if state.remaining_s and not is_stale(state, lock):
        return _AcquireAttempt(state)
    claimed = _claim(transport, job, lock, terms, state)
    return _AcquireAttempt(claimed or state, won=claimed is not None)


def is_stale(state: MarkerState, lock: str | None) -> bool:
    """Whether the holder is certainly dead: its claim names the lock file that this process holds now."""
    return lock is not None and state.claim is not None and state.claim.lock == lock


def _claim(transport: Transport, job: str, lock: str, terms: LeaseTerms, state: MarkerState) -> MarkerState | None:
    claim = dataclasses.replace(_own_claim(job, lock, terms), boot=state.boot, uptime_s=state.uptime_s)
    after = Marker(transport).claim(claim, state)
    return after if _holds(after, claim) else None


def _own_claim(job: str, lock: str, terms: LeaseTerms) -> Claim:
    """A claim of this process, yet without the unit's clock."""
    return Claim(
        owner=owner_name(),
        pid=os.getpid(),
        job=safe_text.word(job),
        nonce=secrets.token_hex(8),
        lock=lock,
        boot="",
        uptime_s=0.0,
        lease_s=terms.lease_s,
    )


def _holds(state: MarkerState, claim: Claim) -> bool:
    return state.claim is not None and state.claim.nonce == claim.nonce


def owner_name() -> str:
    """Who works here, as others see it: `alice@lab`."""
    return safe_text.word(f"{name_or_number()}@{socket.gethostname()}")


def name_or_number() -> str:
    """The name of this process's user, or the number."""
    return host_system.user_name() or f"user {os.getuid()}"


@contextlib.contextmanager
def _keep_renewed(lease: Lease, connect: Connect | None, terms: LeaseTerms) -> Iterator[None]:
    """Runs the renewing thread for the block; ends the lease afterwards."""
    stop = threading.Event()
    thread = threading.Thread(target=_renew_until, args=(lease, connect, terms, stop), name="lease", daemon=True)
    thread.start()
    join_s = JOIN_S
    try:
        yield
    except DeviceLostError as error:
        join_s = JOIN_S if isinstance(error, ProcessEndedError) else 0.0  # the thread waits for the same unit
        raise
    finally:
        stop.set()
        thread.join(join_s)
        lease.end()


def _renew_until(lease: Lease, connect: Connect | None, terms: LeaseTerms, stop: threading.Event) -> None:
    """Renews the lease until `stop` is set or the lease is lost; connects again after a failure."""
    own_transport: Transport | None = None
    delay_s = terms.renew_s
    while not stop.wait(delay_s) and not lease.lost:
        try:
            if connect and own_transport is None:
                own_transport = connect()
            if not stop.is_set():  # to connect may have taken long
                lease.renew(Marker(own_transport) if own_transport else None)
            delay_s = terms.renew_s
        except LeaseLostError:
            break
        except FarmError:
            _close(own_transport)
            own_transport, delay_s = None, terms.retry_s
    _close(own_transport)


def _close(transport: Transport | None) -> None:
    if transport is not None:
        with contextlib.suppress(FarmError):
            transport.close()


def how_to_end(unit: Unit, state: MarkerState) -> str:
    """The command that ends a lease, whoever holds it."""
    if state.claim and state.claim.is_reservation:
        return f"`farm release {unit.name} --force` ends that reservation"
    return f"`farm devices release {unit.name} --force` ends that job"


def _holder_name(state: MarkerState) -> str:
    return f"{state.claim.owner} ({state.claim.job})" if state.claim else "somebody else"


def _holder_line(state: MarkerState) -> str:
    found = holder_of(state)
    return found.line if found else "held by nobody"
