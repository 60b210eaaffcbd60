"""Which OpenCL library farmrt uses on a unit, what its driver offers, and whether both are well (the health check)."""

import json
import os
from pathlib import Path

from pydantic import ValidationError

from farm.config.inventory import Unit
from farm.farmrt import drivers, working_drivers
from farm.farmrt.answers import ProbeAnswer
from farm.transport import Transport, connect
from farm.units import acceptance, facts_cache, health_check
from farm.units.health import CheckResult
from runtime.errors import ConfigError, DeviceError, UnsupportedError
from runtime.native.build import build_farmrt

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


FARMRT = "farmrt"
PROBE_DEADLINE_S = 60.0


def probe_unit(unit: Unit, transport: Transport, opencl: str | None = None) -> facts_cache.DriverFacts:
    """The OpenCL device of a unit, also kept for later (farm.units.facts_cache); its lease must be held.

    `opencl` names the library; None leaves the search to farmrt.

    Raises:
        ConfigError, JobError: farmrt cannot be built for it, brought there, or does not answer.
    """
    driver = facts_cache.driver_of(_unit_answer(unit, transport, opencl))
    facts_cache.update(unit, driver=driver)
    return driver


def read_probe(unit: Unit, transport: Transport, opencl: str | None = None) -> ProbeAnswer:
    """All that farmrt tells of a unit; arguments and errors are those of `probe_unit`."""
    try:
        return ProbeAnswer.model_validate(_unit_answer(unit, transport, opencl))
    except ValidationError:
        raise DeviceError("farmrt's answer to `probe` is not one that farm understands") from None


def _unit_answer(unit: Unit, transport: Transport, opencl: str | None) -> object:
    answer, exit_status = _probe(unit, transport, opencl)
    if not isinstance(answer, dict):
        raise DeviceError(f"farmrt does not run there: `farmrt probe` ended with exit status {exit_status}")
    return answer


def _probe(unit: Unit, transport: Transport, opencl: str | None) -> tuple[object, int]:
    """What farmrt answered, None where that is no JSON; and its exit status."""
    transport.push({FARMRT: build_farmrt(unit.abi)})
    words = [f"opencl={opencl}"] if opencl else []
    done = transport.run([f"./{FARMRT}", "probe", *words], PROBE_DEADLINE_S)
    try:
        return json.loads(done.stdout), done.exit_status
    except (ValueError, RecursionError):
        return None, done.exit_status


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
