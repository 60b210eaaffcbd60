"""Transports connect to units: base.py declares the interface, and each transport implements it in a file."""

from __future__ import annotations

from pathlib import Path

from farm import toolchain
from farm.config.inventory import Unit
from farm.host_system import why_no_linux
from farm.transport import adb, command_log
from farm.transport.base import CompletedProgram, Process, Transport
from farm.transport.interruption import Interruption
from farm.transport.local import LocalTransport
from farm.transport.ssh_backoff import Patience
from runtime.errors import ConfigError, DeviceError

__all__ = ["CompletedProgram", "Patience", "Process", "Transport", "connect"]

UNITS_FOLDER = Path("build/units")


def connect(
    unit: Unit,
    units_folder: Path = UNITS_FOLDER,
    interruption: Interruption | None = None,
    patience: Patience | None = None,
) -> Transport:
    """Connects to a unit by its transport; a local unit's folder lies in `units_folder`.

    `interruption` ends waits for programs of the unit; `patience` waits for a server that turns connections away.
    """
    return command_log.logged(unit.name, _connected(unit, units_folder, interruption, patience))


def _connected(
    unit: Unit, units_folder: Path, interruption: Interruption | None, patience: Patience | None
) -> Transport:
    if unit.transport == "local":
        if reason := why_no_linux("running networks here"):
            raise DeviceError(f"{unit.name}: {reason}")
        return LocalTransport(units_folder / unit.name, toolchain.environment(), interruption)
    if unit.transport == "ssh":
        from farm.transport import ssh  # paramiko takes a third of a second to import

        return ssh.connect(unit, interruption=interruption, patience=patience)
    if unit.transport == "adb":
        return adb.connect(unit, interruption)
    raise ConfigError(f"{unit.name}: unknown transport {unit.transport!r}")
