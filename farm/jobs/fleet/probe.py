"""What the OpenCL driver of a unit really offers, asked of farmrt there."""

from __future__ import annotations

import json

from pydantic import ValidationError

from farm.config.inventory import Unit
from farm.farmrt.answers import ProbeAnswer
from farm.transport import Transport
from farm.units import facts_cache
from runtime.errors import DeviceError
from runtime.native.build import build_farmrt

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
