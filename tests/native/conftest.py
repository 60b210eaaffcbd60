"""farmrt built once, and the OpenCL drivers to run it with."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from farm.farmrt.drivers import locate
from runtime.native.build import build_farmrt
from tests import opencl
from tests.native.farmrt import Farmrt

LOADER = "libOpenCL.so.1"
THOROUGH = {opencl.label(driver): str(driver.path) for driver in opencl.THOROUGH}
LIBRARIES = THOROUGH | ({"loader": LOADER} if "system" in opencl.ORIGINS and locate(LOADER) else {})


@pytest.fixture(scope="session")
def farmrt_program() -> Path:
    return build_farmrt()


@pytest.fixture(scope="module")
def farmrt(farmrt_program: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Farmrt]:
    """farmrt that the tests of a module share."""
    with Farmrt(farmrt_program, tmp_path_factory.mktemp("shared")) as running:
        yield running


@pytest.fixture
def cpu(farmrt_program: Path, tmp_path: Path) -> Iterator[Farmrt]:
    """farmrt that finds no OpenCL."""
    with Farmrt(farmrt_program, tmp_path, variables={"FARM_OPENCL": "/nonexistent/libOpenCL.so"}) as running:
        yield running


@pytest.fixture(params=list(LIBRARIES))
def gpu(request: pytest.FixtureRequest, farmrt_program: Path, tmp_path: Path) -> Iterator[Farmrt]:
    """farmrt on each OpenCL driver in turn, and by way of the system's loader."""
    with Farmrt(farmrt_program, tmp_path, library=LIBRARIES[request.param]) as running:
        yield running
