"""What was last learnt of each unit, for when it cannot be asked: its facts, and what farmrt said of its driver.

One file a unit, `build/units/<name>/known.json`; what it holds counts only for the device that it was learnt from.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from farm import atomic_file, safe_text
from farm.config.inventory import Unit
from farm.lease import host_lock
from farm.rows.record import Record
from farm.units.facts import Facts
from runtime.errors import FarmError

FOLDER = Path("build/units")
FILE = "known.json"
MAX_FILE_BYTES = 64 * 1024
MAX_DRIVER = 200


class Driver(Record):
    """The OpenCL device as farmrt sees it; `error` says why there is none. All empty where nobody asked."""

    gpu: str = ""
    driver: str = ""
    opencl: str = ""
    error: str = ""


class Known(Record):
    """What is known of one device."""

    identity: str
    facts: Facts = Facts()
    driver: Driver = Driver()


def read(unit: Unit, folder: Path = FOLDER) -> Known:
    """What is known; nothing where there is no file, or it is damaged or tells of another device."""
    with contextlib.suppress(OSError, ValidationError):
        with _file(unit, folder).open("rb") as file:
            known = Known.model_validate_json(file.read(MAX_FILE_BYTES))
        if known.identity == host_lock.identity(unit):
            return known
    return Known(identity=host_lock.identity(unit))


def note(unit: Unit, facts: Facts | None = None, driver: Driver | None = None, folder: Path = FOLDER) -> Known:
    """Keeps what was learnt; where the file cannot be written, that is no reason to stop."""
    before = read(unit, folder)
    known = Known(identity=before.identity, facts=facts or before.facts, driver=driver or before.driver)
    if known != before:
        with contextlib.suppress(FarmError):
            atomic_file.write(_file(unit, folder), known.model_dump_json(indent=1).encode())
    return known


def driver_of(probe: object) -> Driver:
    """The driver out of what `farmrt probe` answered, whatever the types of its members are."""
    opencl = _mapping(_mapping(probe).get("opencl"))
    device = _mapping(opencl.get("device"))
    if not device:
        return Driver(error=_text(opencl.get("error")) or "no OpenCL driver was found")
    return Driver(
        gpu=_text(device.get("name")), driver=_text(device.get("driver")), opencl=_text(opencl.get("platform_version"))
    )


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _text(value: object) -> str:
    return safe_text.word(value, MAX_DRIVER) if isinstance(value, str) else ""


def _file(unit: Unit, folder: Path) -> Path:
    return folder / unit.name / FILE
