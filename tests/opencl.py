"""The OpenCL drivers that tests run on: those found on this machine that build kernels here.

`THOROUGH` holds the best one of each origin, on which all tests of kernels run; any other must pass a few. Where a test
has very many cases, drivers and precisions take turns, which FARM_TURN=NUMBER shifts. FARM_EXHAUSTIVE=1 asks for every
product of them, FARM_EXHAUSTIVE=KERNEL,... for those of these kernels (tests/exhaustive.py).
"""

import functools
import os
from collections.abc import Sequence
from typing import Any, TypeVar

import pyopencl as cl
import pytest

from farm.farmrt import working_drivers
from farm.farmrt.drivers import Driver, find_drivers
from runtime.kernels.spec import Kernel
from runtime.reference.device import open_device

# pyopencl's own folder of headers, which no kernel includes, would be part of all build options: PoCL, which keeps what
# it builds by source and options, then compiles all that farmrt launches a second time for pyopencl.
cl._DEFAULT_INCLUDE_OPTIONS.clear()
FOUND = find_drivers()
FAULTS = {driver: fault for driver in FOUND if (fault := working_drivers.fault(driver))}
WORKING = [driver for driver in FOUND if driver not in FAULTS]
ORIGINS = tuple(dict.fromkeys(driver.origin for driver in WORKING))
THOROUGH = [next(driver for driver in WORKING if driver.origin == origin) for origin in ORIGINS]
_ASKED = os.environ.get("FARM_EXHAUSTIVE", "").split(",")
EXHAUSTIVE = "1" in _ASKED
TURN = int(os.environ.get("FARM_TURN", "0"))
open_once = functools.cache(open_device)
T = TypeVar("T")


def label(driver: Driver) -> str:
    """Name of a driver in a test's id."""
    return f"{driver.origin} {driver.name.split()[0]}"


def is_exhaustive(kernel: Kernel) -> bool:
    """Whether every product of a kernel's launches is asked for."""
    return EXHAUSTIVE or f"{kernel.memory}-{kernel.name}" in _ASKED


def turn(number: int, choices: Sequence[T], exhaustive: bool = EXHAUSTIVE) -> list[T]:
    """Which of the choices a case of this number takes: one of them, in turns; all of them if exhaustive."""
    return list(choices) if exhaustive or not choices else [choices[(number + TURN) % len(choices)]]


def of_turn(number: int, exhaustive: bool = EXHAUSTIVE) -> list[Driver]:
    """The drivers that a case of this number is tested on."""
    return turn(number, THOROUGH, exhaustive)


def every_driver() -> list[Any]:
    """A parameter for each driver that was found; skipped, with the reason, where it does not work."""
    return [pytest.param(driver, id=label(driver), marks=_skipped(driver)) for driver in FOUND]


def _skipped(driver: Driver) -> list[pytest.MarkDecorator]:
    return [pytest.mark.skip(reason=f"{driver.path} {FAULTS[driver]}")] if driver in FAULTS else []


def default_device() -> Any:
    """pyopencl's device on the best driver; skips the test or the module where none works."""
    if not WORKING:
        pytest.skip(f"no OpenCL driver: {working_drivers.faults(FOUND)}", allow_module_level=True)
    return open_once(WORKING[0].path)
