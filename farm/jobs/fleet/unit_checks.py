"""Looks at a unit for `farm doctor --device`: what it has, what it lacks for jobs, and what to do about it."""

import contextlib
from collections.abc import Iterator

from farm import safe_text, soc
from farm.condition import governor, readiness
from farm.condition.device_state import read_state
from farm.config.inventory import DEFAULT_FILE, Unit
from farm.doctor import MAX_FOUND, Check
from farm.farmrt.answers import DeviceAnswer, OpenClAnswer
from farm.jobs.fleet.opencl_library import check_opencl, find_opencl, read_probe
from farm.lease import lease
from farm.rows.device_state import DeviceState
from farm.transport import Transport, connect
from farm.units import acceptance, facts
from farm.units.facts import Facts
from runtime.errors import FarmError, UnitBusyError, UnsupportedError

MIN_FREE_BYTES = 100_000_000  # farmrt, a plan and the weights of a large network
NEEDS_NO_DRIVER = "`runtime: cpu` needs no driver"


def examine_unit(unit: Unit) -> Iterator[Check]:
    """All checks of a unit, each as soon as it is known; those that need farmrt take the unit's lease."""
    try:
        with contextlib.closing(connect(unit)) as transport:
            found = facts.read_facts(transport)
            yield Check("connection", "ok", f"{unit.name} by {unit.transport}")
            yield from _identity(unit, found)
            yield from _conditions(unit, transport, read_state(transport, acceptance.trust_of(unit).ignored_zones))
            yield from _runtime(unit, transport)
    except FarmError as error:
        advice = "`farm devices` shows its state, docs/devices.md what to do in each"
        yield Check("connection", "missing", safe_text.word(error, MAX_FOUND), advice)


def _identity(unit: Unit, found: Facts) -> Iterator[Check]:
    words = ", ".join(word for word in (unit.model, found.os, found.gpu) if word)
    yield Check("unit", "missing" if found.obstacle else "ok", safe_text.word(words, MAX_FOUND), found.obstacle)
    if unit.soc == soc.UNKNOWN:
        advice = f"name it in {DEFAULT_FILE} (target_socs), so that it can be tuned for"
        yield Check("SoC", "advice", "the unit does not tell it", advice)
    else:
        yield Check("SoC", "ok", unit.soc)
    abis = ", ".join(unit.abis)
    advice = "" if abis else f"name one in {DEFAULT_FILE} (target_abis)"
    yield Check("ABI", "ok" if abis else "missing", abis or "none that farm knows", advice)


def _conditions(unit: Unit, transport: Transport, state: DeviceState) -> Iterator[Check]:
    if state.free_bytes is not None:
        found = f"{state.free_bytes // readiness.BYTES_PER_MB} MB free in its folder"
        enough = state.free_bytes >= MIN_FREE_BYTES
        yield Check("storage", "ok" if enough else "advice", found, "" if enough else "`farm clean` makes room")
    yield _clocks(transport, state)
    yield from (
        Check("state", "advice", obstacle.reason, "jobs wait until this is over" if obstacle.is_transient else "")
        for obstacle in readiness.obstacles(state, unit.limits)
    )


def _clocks(transport: Transport, state: DeviceState) -> Check:
    if not state.governors:
        return Check("clocks", "ok", "its system shows no frequency scaling")
    highest = f"up to {max(state.clock_limit_mhz):.0f} MHz, " if state.clock_limit_mhz else ""
    names = ", ".join(f"{cores}: {name}" for cores, name in state.governors.items())
    found = safe_text.word(f"{highest}governors {names}", MAX_FOUND)
    if set(state.governors.values()) == {governor.PERFORMANCE} or governor.may_set(transport):
        return Check("clocks", "ok", found)
    return Check("clocks", "advice", found, "times vary with them; a job sets `performance` where it may (root)")


def _runtime(unit: Unit, transport: Transport) -> Iterator[Check]:
    """What farmrt finds on the unit; a unit that somebody holds is left alone."""
    if not unit.abis:
        return
    try:
        with lease.acquire(unit, transport, "farm doctor"):
            answer = read_probe(unit, transport, find_opencl(unit, None))
    except UnitBusyError as error:
        yield Check("farmrt", "advice", safe_text.word(error, MAX_FOUND), "try again when it is free")
    except FarmError as error:
        yield Check("farmrt", "missing", safe_text.word(error, MAX_FOUND), "`farm devices check` tries each step alone")
    else:
        yield Check("farmrt", "ok", safe_text.word(f"runs; CPU {answer.cpu.model or 'of unknown model'}", MAX_FOUND))
        yield _driver(unit, answer.opencl)


def _driver(unit: Unit, opencl: OpenClAnswer) -> Check:
    error = _driver_error(unit, opencl)
    if error or opencl.device is None:
        advice = f"{unit.kind.driver_advice}; {NEEDS_NO_DRIVER}"
        return Check("OpenCL driver", "missing", safe_text.word(error or "none was found", MAX_FOUND), advice)
    return Check("OpenCL driver", "ok", safe_text.word(_device_words(opencl.device), MAX_FOUND))


def _driver_error(unit: Unit, opencl: OpenClAnswer) -> str:
    """Why the driver is of no use; empty where it is, or where there is none."""
    try:
        if opencl.device and opencl.library:
            check_opencl(unit, opencl.library)
    except UnsupportedError as error:
        return str(error)
    return opencl.error or ""


def _device_words(device: DeviceAnswer) -> str:
    parts = (("fp16 arithmetic", device.fp16), ("images", device.images))
    has = [name if there else f"no {name}" for name, there in parts]
    return f"{device.name}, driver {device.driver}, {device.version}, {', '.join(has)}"
