"""Which OpenCL library farmrt uses on a unit: on this machine the best driver that works."""

from __future__ import annotations

import os
from pathlib import Path

from farm.config.inventory import Unit
from farm.farmrt import drivers, working_drivers
from runtime.errors import ConfigError, UnsupportedError

DRIVER_ORIGINS = ("intel", "pypi", "system")


def find_opencl(unit: Unit, wanted: str | None) -> str | None:
    """The OpenCL library for farmrt; None leaves the search to it.

    `wanted` is a library or an origin; without it FARM_OPENCL counts, then the best driver of this machine that works.
    Where none does, it is the best that is there: a job that needs no OpenCL has no need of a better one.
    """
    if wanted is not None and wanted not in DRIVER_ORIGINS:
        return wanted
    if not unit.kind.is_local:
        if wanted:
            raise ConfigError(f"--opencl {wanted} is for this machine; name a library for unit {unit.name!r}")
        return None
    known = drivers.find_drivers()
    if wanted is None:
        return None if os.environ.get("FARM_OPENCL") or not known else str(working_drivers.best(known).path)
    of_origin = [driver for driver in known if driver.origin == wanted]
    if of_origin:
        return str(working_drivers.best(of_origin).path)
    there = ", ".join(f"{driver.origin} ({driver.path})" for driver in known) or "none"
    raise ConfigError(f"--opencl {wanted}: no such driver on this machine; there are: {there}")


def check_opencl(unit: Unit, library: str) -> None:
    """Raises UnsupportedError where the library in use is a driver of this machine that builds no kernel."""
    if not unit.kind.is_local:
        return
    for driver in drivers.find_drivers():
        if driver.path == Path(library) and (fault := working_drivers.fault(driver)):
            advice = working_drivers.install_advice()
            raise UnsupportedError(f"unit {unit.name!r}: {driver.name} ({library}) {fault}; {advice}")
