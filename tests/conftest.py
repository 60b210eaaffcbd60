"""Every test runs as farm does: with an `ld` on PATH, without which PoCL cannot link kernels.

FARM_REQUIRED_DRIVERS=system,pypi makes the run fail where such an OpenCL driver is missing, instead of testing less.
"""

from __future__ import annotations

import os

import pytest

from farm import toolchain
from farm.drivers import find_drivers

os.environ.update(toolchain.environment())


def pytest_sessionstart(session: pytest.Session) -> None:
    required = set(filter(None, os.environ.get("FARM_REQUIRED_DRIVERS", "").split(",")))
    missing = required - {driver.origin for driver in find_drivers()}
    if missing:
        pytest.exit(f"no OpenCL driver from: {', '.join(sorted(missing))}; see `farm doctor`", returncode=1)
