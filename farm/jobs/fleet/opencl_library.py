"""Which OpenCL library farmrt uses on a unit."""

from __future__ import annotations

import os

from farm.config.inventory import Unit
from farm.farmrt import drivers
from runtime.errors import ConfigError

DRIVER_ORIGINS = ("pypi", "system")


def find_opencl(unit: Unit, wanted: str | None) -> str | None:
    """The OpenCL library for farmrt; None leaves the search to it.

    `wanted` is a library or an origin; without it FARM_OPENCL counts, then the best driver of this machine.
    """
    if wanted is not None and wanted not in DRIVER_ORIGINS:
        return wanted
    if unit.transport != "local":
        if wanted:
            raise ConfigError(f"--opencl {wanted} is for this machine; name a library for unit {unit.name!r}")
        return None
    known = drivers.find_drivers()
    if wanted is None:
        return None if os.environ.get("FARM_OPENCL") or not known else str(known[0].path)
    for driver in known:
        if driver.origin == wanted:
            return str(driver.path)
    there = ", ".join(f"{driver.origin} ({driver.path})" for driver in known) or "none"
    raise ConfigError(f"--opencl {wanted}: no such driver on this machine; there are: {there}")
