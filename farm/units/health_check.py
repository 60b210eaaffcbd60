"""The health check of a unit: connects, runs, pushes and pulls, looks at the state, starts farmrt."""

from __future__ import annotations

import contextlib
import dataclasses
import secrets
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

from farm import safe_text
from farm.condition import readiness
from farm.condition.device_state import read_state
from farm.config.inventory import Limits, Unit
from farm.lease import lease
from farm.transport.base import Transport
from farm.units.health import MAX_REASON, Finding
from runtime.errors import DeviceError, JobError

RUN_DEADLINE_S = 20.0
PUSHED_BYTES = 256 * 1024
LEAST_FREE_MB = 100


def check(unit: Unit, connect: Callable[[], Transport], probe: Callable[[Transport], str]) -> list[Finding]:
    """All points of the check, up to one without which the others cannot be looked at.

    Args:
        unit: the unit.
        connect: opens the way to it.
        probe: brings farmrt there and asks what the device is; returns that in a few words.

    Raises:
        UnitBusyError: somebody else holds the unit.
    """
    try:
        transport = connect()
    except JobError as error:
        return [Finding("connection", False, str(error))]
    with contextlib.closing(transport):
        connected = _finding("connection", lambda: _runs(transport))
        if not connected.ok:
            return [connected]
        with lease.acquire(unit, transport, "health check"):
            return [
                connected,
                _finding("files", lambda: _carries(transport)),
                *_state(transport, unit.limits),
                _finding("farmrt", lambda: probe(transport)),
            ]


def _finding(name: str, look: Callable[[], str]) -> Finding:
    """A point of the check; a ConfigError is the user's mistake and no fault of the unit."""
    try:
        return Finding(name, True, safe_text.word(look(), MAX_REASON))
    except JobError as error:
        return Finding(name, False, safe_text.word(error, MAX_REASON))


def _runs(transport: Transport) -> str:
    word = secrets.token_hex(8)
    completed = transport.run(["sh", "-c", 'echo "$1"; exit 42', "sh", word], RUN_DEADLINE_S)
    if completed.exit_status != 42 or completed.stdout.strip() != word.encode():
        raise DeviceError(f"a command came back with exit status {completed.exit_status} and another output")
    return "commands run"


def _carries(transport: Transport) -> str:
    with TemporaryDirectory() as folder:
        sent, fetched = Path(folder, "sent"), Path(folder, "fetched")
        sent.write_bytes(secrets.token_bytes(PUSHED_BYTES))
        transport.push({"health.bin": sent})
        transport.pull("health.bin", fetched)
        transport.run(["rm", "-f", "health.bin"], RUN_DEADLINE_S)
        if fetched.read_bytes() != sent.read_bytes():
            raise DeviceError("a file came back changed")
    return "files arrive whole"


def _state(transport: Transport, limits: Limits) -> list[Finding]:
    """Storage, battery and temperature; a phone that is only warm now is no case for quarantine."""
    try:
        state = read_state(transport)
    except JobError as error:
        return [Finding("state", False, safe_text.word(error, MAX_REASON))]
    least = dataclasses.replace(limits, free_storage_mb=limits.free_storage_mb or LEAST_FREE_MB)
    bad = [each.reason for each in readiness.unfit(state, least) if not each.passes]
    told = [f"{state.temperature_c:.1f} °C"] if state.temperature_c is not None else []
    told += [f"battery {state.battery_percent} %"] if state.battery_percent is not None else []
    told += [f"{state.free_bytes // readiness.BYTES_PER_MB} MB free"] if state.free_bytes is not None else []
    return [Finding("state", not bad, ", ".join(bad or told))]
