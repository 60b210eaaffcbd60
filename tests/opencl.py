"""The OpenCL drivers that tests run on: those found on this machine that build kernels here.

`THOROUGH` holds the best one of each origin, on which all tests of kernels run; any other must pass a few. Where a test
has very many cases, the drivers take turns (`of_turn`, `others_than_of_turn`), unless FARM_EXHAUSTIVE=1 asks for every
case on each of them.
"""

from __future__ import annotations

import functools
import os
from typing import Any

import pyopencl as cl
import pytest

from farm.farmrt import working_drivers
from farm.farmrt.drivers import Driver, find_drivers
from runtime.reference.device import open_device
from runtime.types import Precision

# pyopencl's own folder of headers, which no kernel includes, would be part of all build options: PoCL, which keeps what
# it builds by source and options, then compiles all that farmrt launches a second time for pyopencl.
cl._DEFAULT_INCLUDE_OPTIONS.clear()
FOUND = find_drivers()
FAULTS = {driver: fault for driver in FOUND if (fault := working_drivers.fault(driver))}
WORKING = [driver for driver in FOUND if driver not in FAULTS]
ORIGINS = tuple(dict.fromkeys(driver.origin for driver in WORKING))
THOROUGH = [next(driver for driver in WORKING if driver.origin == origin) for origin in ORIGINS]
EXHAUSTIVE = os.environ.get("FARM_EXHAUSTIVE") == "1"
open_once = functools.cache(open_device)


def label(driver: Driver) -> str:
    """Name of a driver in a test's id."""
    return f"{driver.origin} {driver.name.split()[0]}"


def of_turn(number: int) -> list[Driver]:
    """The drivers that a case of this number is tested on: one of `THOROUGH`, in turns; all of them if exhaustive."""
    return THOROUGH if EXHAUSTIVE else THOROUGH[number % max(1, len(THOROUGH)) :][:1]


def others_than_of_turn(number: int) -> list[Driver]:
    """All drivers but the one of this number; all of them where there is no other, or if exhaustive."""
    return [driver for driver in THOROUGH if driver not in of_turn(number)] or THOROUGH


def is_built(variant: int, precision: Precision) -> bool:
    """Whether a driver builds a kernel's variant of this number in a precision.

    Each does in half arithmetic. In the two precisions that all drivers have, the first two variants are built in both,
    the others in turns: Oclgrind executes every variant in both (tests/oclgrind).
    """
    turn = (Precision.FP32, Precision.FP16_STORAGE)[variant % 2]
    return EXHAUSTIVE or variant < 2 or precision in (turn, Precision.FP16)


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
