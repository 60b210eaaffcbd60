"""farmrt built once, and the OpenCL drivers to run it with."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyopencl
import pytest

from runtime.native.build import build_farmrt
from tests.native.farmrt import Farmrt

SYSTEM_PATTERNS = ("/usr/lib/*/libpocl.so.2", "/usr/lib*/libpocl.so.2")


def drivers() -> dict[str, str]:
    """Driver libraries by name: PyPI's PoCL, the system's, and the system's loader."""
    bundled = sorted((Path(pyopencl.__file__).parent / ".libs").glob("libpocl-*.so"))
    system = sorted(path for pattern in SYSTEM_PATTERNS for path in Path("/").glob(pattern.lstrip("/")))
    found = {"bundled": str(bundled[0])} if bundled else {}
    return found | ({"system": str(system[0]), "loader": "libOpenCL.so.1"} if system else {})


DRIVERS = drivers()


@pytest.fixture(scope="session")
def farmrt_program() -> Path:
    return build_farmrt()


@pytest.fixture
def cpu(farmrt_program: Path, tmp_path: Path) -> Iterator[Farmrt]:
    """farmrt that finds no OpenCL."""
    with Farmrt(farmrt_program, tmp_path, variables={"FARM_OPENCL": "/nonexistent/libOpenCL.so"}) as running:
        yield running


@pytest.fixture(params=list(DRIVERS))
def gpu(request: pytest.FixtureRequest, farmrt_program: Path, tmp_path: Path) -> Iterator[Farmrt]:
    """farmrt on each OpenCL driver in turn."""
    with Farmrt(farmrt_program, tmp_path, library=DRIVERS[request.param]) as running:
        yield running
