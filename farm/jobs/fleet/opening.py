"""Opens a unit: connects, takes its lease, waits until it is fit, brings farmrt there and starts it."""

import contextlib
import time
from collections.abc import Iterator, Mapping
from typing import Any

from farm.condition import steadiness, task_profile
from farm.condition.device_state import read_state
from farm.condition.readiness import BYTES_PER_MB, wait_until_ready
from farm.config.inventory import Unit
from farm.farmrt.unit_file_store import UnitFileStore
from farm.jobs.fleet.opencl_library import check_unit, find_opencl
from farm.jobs.fleet.progress import UnitProgress
from farm.jobs.fleet.unit import OpenUnit, UnitConnection
from farm.lease import lease
from farm.lease.lease import Lease
from farm.transport import Patience, Transport, connect
from farm.transport.interruption import Interruption
from farm.units import acceptance, facts_cache, health
from farm.units.facts import NO_ABI, Facts, complete, read_facts
from runtime.errors import DeviceError


@contextlib.contextmanager
def open_unit(
    unit: Unit,
    opencl: str | None = None,
    progress: UnitProgress | None = None,
    purpose: str = "farm",
    wait_s: float = 0.0,
    interruption: Interruption | None = None,
    round_limit_s: float | None = None,
    environment: Mapping[str, str] | None = None,
) -> Iterator[OpenUnit]:
    """Connects to a unit, takes its lease, brings farmrt there and starts it.

    Args:
        unit: the unit.
        opencl: a library, `intel`, `pypi`, `system`, or None for the best.
        progress: reports what happens meanwhile.
        purpose: what the lease is for, shown to others who want the unit.
        wait_s: how long to wait for a unit that somebody else holds.
        interruption: ends, from another thread, what waits for the unit.
        round_limit_s: how long a round of a model may go without progress; None: by deployment file or work.
        environment: variables of this farmrt, not of its twins.
    """
    interruption = interruption or Interruption()
    known = facts_cache.read(unit).facts
    _refuse_obstacle(unit, known)
    library = find_opencl(unit, opencl)
    progress = progress or UnitProgress(unit.name)
    say = progress.stage
    say("connecting")
    health.HealthRecords().admit(unit, lambda: check_unit(unit))
    with (
        _reached(unit, known, progress, interruption) as (transport, unit),
        lease.acquire(
            unit, transport, purpose, connect=lambda: connect(unit), wait_s=wait_s, say=progress.waiting
        ) as held,
        _made_ready(unit, transport, held, progress, interruption) as conditions,
        UnitFileStore(transport, unit.limits.store_mb * BYTES_PER_MB, held.check) as store,
    ):
        say(f"farmrt for {unit.abi}")
        profile = task_profile.find_profile(transport)
        conditions = conditions | ({"task_profile": profile.name} if profile.name else {})
        connection = UnitConnection(
            unit, transport, held, store, progress, library, profile, conditions, interruption, round_limit_s
        )
        with connection.session(environment=environment) as session:
            yield OpenUnit(connection, session)


@contextlib.contextmanager
def _reached(
    unit: Unit, known: Facts, progress: UnitProgress, interruption: Interruption
) -> Iterator[tuple[Transport, Unit]]:
    """Connects; a unit that was never looked at is, before anything is done there that its system may lack.

    The unit too, with what it says of itself: it may have been away when units were chosen.
    """
    patience = Patience(interruption.sleep, progress.waiting)
    with contextlib.closing(connect(unit, interruption=interruption, patience=patience)) as transport:
        progress.reached = True
        if (not unit.kind.is_local and known == Facts()) or acceptance.kept(unit):  # which an update would end
            known = facts_cache.update(unit, read_facts(transport)).facts
            _refuse_obstacle(unit, known)
        unit = complete(unit, known)
        if not unit.abis:
            raise DeviceError(f"{unit.name}: {NO_ABI}", "unsupported")
        yield transport, unit


def _refuse_obstacle(unit: Unit, facts: Facts) -> None:
    if facts.obstacle:
        raise DeviceError(f"{unit.name}: {facts.obstacle}", "unsupported")


@contextlib.contextmanager
def _made_ready(
    unit: Unit, transport: Transport, held: Lease, progress: UnitProgress, interruption: Interruption
) -> Iterator[dict[str, Any]]:
    """Waits until the unit is fit for a job, and lets it run at its highest clocks meanwhile; what was done."""
    fit = wait_until_ready(
        unit.name,
        lambda: progress.state(read_state(transport, acceptance.trust_of(unit).ignored_zones)),
        unit.limits,
        time.monotonic,
        interruption.sleep,
        progress.stage,
    )
    waited = {"waited_s": round(fit.waited_s, 1), "waited_for": fit.waited_for} if fit.waited_for else {}
    with steadiness.held_steady(transport, unit.limits.keep_awake, held.check) as held_steady:
        yield waited | held_steady.settings
