"""The health check of a unit, farmrt and its OpenCL driver included."""

from __future__ import annotations

from farm.config.inventory import Unit
from farm.jobs.fleet.opencl_library import find_opencl
from farm.jobs.fleet.probe import probe_unit
from farm.transport import Transport, connect
from farm.units import acceptance, health_check
from farm.units.health import CheckResult


def check_unit(unit: Unit) -> list[CheckResult]:
    """All points of the check, acceptance too; raises UnitBusyError when somebody else holds the unit."""
    return [*check_basics(unit), *acceptance.check_result(unit)]


def check_basics(unit: Unit) -> list[CheckResult]:
    """All points but what `farm accept` has found, which only it can mend."""
    return health_check.check(unit, lambda: connect(unit), lambda transport: _driver(unit, transport))


def _driver(unit: Unit, transport: Transport) -> str:
    """The unit's OpenCL device in a few words; that it has none is no fault."""
    driver = probe_unit(unit, transport, find_opencl(unit, None))
    return driver.error or f"{driver.gpu}, driver {driver.driver}, {driver.opencl}"
