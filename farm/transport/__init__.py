"""Transports connect to units: base.py declares the interface, and each transport implements it in a file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from farm.config.inventory import Unit
from farm.transport import adb, command_log, local
from farm.transport.base import CompletedProgram, Process, Transport
from farm.transport.interruption import Interruption
from runtime.errors import ConfigError

__all__ = ["CompletedProgram", "Process", "Transport", "connect"]

UNITS_FOLDER = Path("build/units")


def connect(unit: Unit, units_folder: Path = UNITS_FOLDER, interruption: Interruption | None = None) -> Transport:
    """Connects to a unit by its transport; a local unit's folder lies in `units_folder`.

    `interruption` ends waits for programs of the unit.
    """
    return command_log.logged(unit.name, _connected(unit, units_folder, interruption))


def _connected(unit: Unit, units_folder: Path, interruption: Interruption | None) -> Transport:
    if unit.transport not in LINKS:
        raise ConfigError(f"{unit.name}: unknown transport {unit.transport!r}")
    return LINKS[unit.transport](unit, units_folder, interruption)


def _ssh(unit: Unit, _units_folder: Path, interruption: Interruption | None) -> Transport:
    from farm.transport import ssh  # paramiko takes a third of a second to import

    return ssh.connect(unit, interruption=interruption)


# What connects to the units of each transport of farm/config/transports.py.
LINKS: dict[str, Callable[[Unit, Path, Interruption | None], Transport]] = {
    "adb": lambda unit, _, interruption: adb.connect(unit, interruption),
    "ssh": _ssh,
    "local": local.connect,
}
