"""The health check of a unit: connects, runs a command, moves files both ways, reads the state, starts farmrt."""

import contextlib
import dataclasses
import secrets
from collections.abc import Callable, Collection
from pathlib import Path
from tempfile import TemporaryDirectory

from farm import safe_text
from farm.condition import readiness
from farm.condition.device_state import read_state
from farm.config.inventory import Limits, Unit
from farm.lease import lease
from farm.transport.base import Transport
from farm.units import acceptance
from farm.units.health import MAX_REASON, CheckResult
from runtime.errors import DeviceError, JobError

RUN_DEADLINE_S = 20.0
PUSHED_BYTES = 256 * 1024
MIN_FREE_MB = 100


def check(unit: Unit, connect: Callable[[], Transport], probe: Callable[[Transport], str]) -> list[CheckResult]:
    """Runs the points of the check in order; stops after the connection where that fails.

    Args:
        unit: the unit.
        connect: opens a connection to it.
        probe: starts farmrt on the unit; returns a few words on the device that it found.

    Raises:
        UnitBusyError: somebody else holds the unit.
    """
    try:
        transport = connect()
    except JobError as error:
        return [CheckResult("connection", False, str(error))]
    with contextlib.closing(transport):
        connected = _result("connection", lambda: _check_commands(transport))
        if not connected.ok:
            return [connected]
        with lease.acquire(unit, transport, "health check"):
            return [
                connected,
                _result("files", lambda: check_transfers(transport, PUSHED_BYTES)),
                *_check_state(transport, unit.limits, acceptance.trust_of(unit).ignored_zones),
                _result("farmrt", lambda: probe(transport)),
            ]


def _result(name: str, measure: Callable[[], str]) -> CheckResult:
    """Runs one point of the check; a JobError makes it fail, while a ConfigError, the user's mistake, is raised."""
    try:
        return CheckResult(name, True, safe_text.word(measure(), MAX_REASON))
    except JobError as error:
        return CheckResult(name, False, safe_text.word(error, MAX_REASON))


def _check_commands(transport: Transport) -> str:
    nonce = secrets.token_hex(8)
    completed = transport.run(["sh", "-c", 'echo "$1"; exit 42', "sh", nonce], RUN_DEADLINE_S)
    if completed.exit_status != 42 or completed.stdout.strip() != nonce.encode():
        raise DeviceError(f"a command came back with exit status {completed.exit_status} and another output")
    return "commands run"


def check_transfers(transport: Transport, size: int) -> str:
    """Sends a file of so many bytes and fetches it; raises DeviceError where it comes back changed."""
    with TemporaryDirectory() as folder:
        sent, fetched = Path(folder, "sent"), Path(folder, "fetched")
        sent.write_bytes(secrets.token_bytes(size))
        try:
            transport.push({"health.bin": sent})
            transport.pull("health.bin", fetched)
        finally:
            with contextlib.suppress(JobError):
                transport.run(["rm", "-f", "health.bin"], RUN_DEADLINE_S)
        if fetched.read_bytes() != sent.read_bytes():
            raise DeviceError("a file came back changed")
    return "files arrive whole"


def _check_state(transport: Transport, limits: Limits, ignored: Collection[str]) -> list[CheckResult]:
    """Checks storage, battery and temperature; what passes by itself, such as heat, does not make the check fail."""
    try:
        state = read_state(transport, ignored)
    except JobError as error:
        return [CheckResult("state", False, safe_text.word(error, MAX_REASON))]
    checked_limits = dataclasses.replace(limits, free_storage_mb=limits.free_storage_mb or MIN_FREE_MB)
    reasons = [obstacle.reason for obstacle in readiness.obstacles(state, checked_limits) if not obstacle.is_transient]
    readings = [f"{state.temperature_c:.1f} °C"] if state.temperature_c is not None else []
    readings += [f"battery {state.battery_percent} %"] if state.battery_percent is not None else []
    readings += [f"{state.free_bytes // readiness.BYTES_PER_MB} MB free"] if state.free_bytes is not None else []
    return [CheckResult("state", not reasons, ", ".join(reasons or readings))]
