"""Caches the facts of each unit, and what farmrt found of its OpenCL driver, for when the unit cannot be asked.

Each unit has a file `build/units/<name>/known.json`, which is valid only for the device that it was read from.
"""

import contextlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from farm import safe_text
from farm.config.inventory import Unit
from farm.lease import host_lock
from farm.rows.record import Record
from farm.units.facts import Facts
from farm.units.unit_file import FOLDER, RecordFile, UnitRecord
from runtime.errors import FarmError

MAX_DRIVER = 200


class DriverFacts(Record):
    """A unit's OpenCL device and driver as farmrt finds them, or why there is none (`error`). All empty: not probed."""

    gpu: str = ""
    driver: str = ""
    opencl: str = ""
    error: str = ""


class CachedFacts(UnitRecord):
    """What is known of one device."""

    facts: Facts = Facts()
    driver: DriverFacts = DriverFacts()


FILE = RecordFile("known.json", CachedFacts, 64 * 1024)


def read(unit: Unit, folder: Path = FOLDER) -> CachedFacts:
    """Reads what is known of a unit; nothing where the file is missing, damaged, or of another device."""
    return FILE.read(unit, folder) or CachedFacts(identity=host_lock.connection_key(unit))


def update(
    unit: Unit, facts: Facts | None = None, driver: DriverFacts | None = None, folder: Path = FOLDER
) -> CachedFacts:
    """Replaces what is given in the unit's file, and returns the whole; a file that cannot be written is no error."""
    before = read(unit, folder)
    cached = CachedFacts(identity=before.identity, facts=facts or before.facts, driver=driver or before.driver)
    if cached != before:
        with contextlib.suppress(FarmError):
            FILE.write(unit, cached, folder)
    return cached


def driver_of(probe: object) -> DriverFacts:
    """Takes the driver out of the answer of `farmrt probe`, whatever the types of the answer's members are."""
    opencl = _mapping(_mapping(probe).get("opencl"))
    device = _mapping(opencl.get("device"))
    if not device:
        return DriverFacts(error=_text(opencl.get("error")) or "no OpenCL driver was found")
    return DriverFacts(
        gpu=_text(device.get("name")), driver=_text(device.get("driver")), opencl=_text(opencl.get("platform_version"))
    )


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _text(value: object) -> str:
    return safe_text.word(value, MAX_DRIVER) if isinstance(value, str) else ""
