"""Remembers which compiled kernels a unit's driver has taken, so that each file is tried only once there.

Each unit has a file `build/units/<name>/kernels.json`, which is valid only for the device that it was written for.
"""

import contextlib
from collections.abc import Mapping
from pathlib import Path

from pydantic import Field

from farm.config.inventory import Unit
from farm.lease import host_lock
from farm.units.unit_file import FOLDER, RecordFile, UnitRecord
from runtime.errors import FarmError

MAX_TRIALS = 500  # the oldest are forgotten first


class TriedKernels(UnitRecord):
    """What came of each trial, by its key: the fault, or empty where the driver took the file.

    `refused`: of each driver the variants of kernels that do not work with it, with what was seen.
    """

    faults: Mapping[str, str] = Field(default_factory=dict)
    refused: Mapping[str, Mapping[str, str]] = Field(default_factory=dict)


FILE = RecordFile("kernels.json", TriedKernels, 1024 * 1024)


def fault(unit: Unit, key: str, folder: Path = FOLDER) -> str | None:
    """What was wrong when these kernels were tried, empty if nothing was; None where they were never tried."""
    return _read(unit, folder).faults.get(key)


def remember(unit: Unit, key: str, found: str, folder: Path = FOLDER) -> None:
    """Keeps what came of a trial; a file that cannot be written is no error, the kernels are then tried again."""
    faults = list(((dict(_read(unit, folder).faults)) | {key: found}).items())[-MAX_TRIALS:]
    _write(unit, _read(unit, folder).model_copy(update={"faults": dict(faults)}), folder)


def refused(unit: Unit, driver: str, folder: Path = FOLDER) -> Mapping[str, str]:
    """The variants of kernels that a driver does not build there, or that compute wrongly, with what was seen."""
    return _read(unit, folder).refused.get(driver, {})


def refuse(unit: Unit, driver: str, found: Mapping[str, str], folder: Path = FOLDER) -> None:
    """Keeps further such variants of the unit's driver; those of another one are forgotten."""
    variants = {**refused(unit, driver, folder), **found}
    _write(unit, _read(unit, folder).model_copy(update={"refused": {driver: variants}}), folder)


def forget_refused(unit: Unit, folder: Path = FOLDER) -> None:
    """Forgets which variants were refused, so that they are tried again."""
    if (tried := _read(unit, folder)).refused:
        _write(unit, tried.model_copy(update={"refused": {}}), folder)


def _write(unit: Unit, tried: TriedKernels, folder: Path) -> None:
    with contextlib.suppress(FarmError):
        FILE.write(unit, tried, folder)


def _read(unit: Unit, folder: Path) -> TriedKernels:
    return FILE.read(unit, folder) or TriedKernels(identity=host_lock.connection_key(unit))
