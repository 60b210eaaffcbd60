"""Transports connect to units: base.py declares the interface, and each transport implements it in a file."""

from collections.abc import Callable
from pathlib import Path

from farm.config.inventory import Unit
from farm.transport import adb, command_log, local
from farm.transport.base import CompletedProgram, Process, Transport
from farm.transport.interruption import Interruption
from farm.transport.ssh_backoff import Patience
from runtime.errors import ConfigError

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
    if unit.transport not in LINKS:
        raise ConfigError(f"{unit.name}: unknown transport {unit.transport!r}")
    return LINKS[unit.transport](unit, units_folder, interruption, patience)


def _ssh(unit: Unit, _: Path, interruption: Interruption | None, patience: Patience | None) -> Transport:
    from farm.transport import ssh  # paramiko takes a third of a second to import

    return ssh.connect(unit, interruption=interruption, patience=patience)


# What connects to the units of each transport of farm/config/transports.py.
LINKS: dict[str, Callable[[Unit, Path, Interruption | None, Patience | None], Transport]] = {
    "adb": lambda unit, _, interruption, __: adb.connect(unit, interruption),
    "ssh": _ssh,
    "local": lambda unit, folder, interruption, _: local.connect(unit, folder, interruption),
}
