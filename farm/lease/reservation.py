"""Reserves a unit for a person: a lease that nobody renews, which lasts as long as was said and survives a reboot."""

import os
import secrets
from pathlib import Path

from farm import safe_text
from farm.config.inventory import Unit
from farm.lease import host_lock, labgrid_place, leftovers
from farm.lease.holder import holder_of
from farm.lease.lease import how_to_end, is_stale, name_or_number, owner_name
from farm.lease.marker import MAX_RESERVATION_S, Claim, Marker, MarkerState
from farm.transport.base import Transport
from runtime.errors import ConfigError, FarmError, UnitBusyError

LOCK = "reserved"  # no lock file has this identity, so no process takes the holder for dead


def reserve(
    unit: Unit,
    transport: Transport,
    reason: str,
    duration_s: float,
    owner: str = "",
    force: bool = False,
    locks: Path | None = None,
) -> str:
    """Takes a unit off for a person; returns a line that says until when. One's own reservation is replaced.

    Args:
        unit: the unit.
        transport: a connection to it.
        reason: what for, shown to those who wait.
        duration_s: how long.
        owner: who, by default this process's user and host.
        force: also when somebody else holds it, whose job ends with an error then.
        locks: folder of the lock files, the user's own by default.

    Raises:
        ConfigError: the time is not possible.
        UnitBusyError: somebody else holds the unit, or its place in labgrid: then the unit is nobody's afterwards.
        JobError: the unit cannot be reached.
    """
    if not 0 < duration_s <= MAX_RESERVATION_S:
        raise ConfigError(f"a reservation lasts at most {MAX_RESERVATION_S / 86_400:g} days")
    owner, marker = safe_text.word(owner or owner_name()), Marker(transport)
    with host_lock.try_lock(host_lock.connection_key(unit), locks) as lock:
        state = marker.read()
        if not (force or is_own_reservation(state, owner)) and (
            lock is None or (state.remaining_s and not is_stale(state, lock))
        ):
            taken = holder_of(state)
            line = taken.line if taken else "being taken or left by another process"
            raise UnitBusyError(f"{unit.name}: {line}; {how_to_end(unit, state)}, and --force reserves it all the same")
        after = marker.claim(_claim(state, reason, duration_s, owner), state)
        reserved = holder_of(after)
        if reserved is None or not is_own_reservation(after, owner):
            raise UnitBusyError(f"{unit.name}: was taken by somebody else in this moment")
        try:
            place = labgrid_place.reserve(unit, name_or_number(), owner, duration_s, force)
        except FarmError:
            marker.end(after.token)
            raise
        cleared = leftovers.clear(transport)
    return f"{unit.name}: {reserved.line}{place}{cleared.line}"


def is_own_reservation(state: MarkerState, owner: str) -> bool:
    """Whether the unit is reserved now, and by this person."""
    claim = state.claim
    return bool(state.remaining_s and claim and claim.is_reservation and claim.owner == owner)


def _claim(state: MarkerState, reason: str, duration_s: float, owner: str) -> Claim:
    return Claim(
        owner=owner,
        pid=os.getpid(),
        job=safe_text.word(reason) or "no reason given",
        nonce=secrets.token_hex(8),
        lock=LOCK,
        boot=state.boot,
        uptime_s=state.uptime_s,
        lease_s=duration_s,
        until_s=state.date_s + duration_s,
    )
