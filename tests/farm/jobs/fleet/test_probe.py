"""The doctor's probe tells a driver that works from one that does not."""

from __future__ import annotations

from pathlib import Path

import pytest

from farm.farmrt import working_drivers
from farm.farmrt.drivers import Driver
from farm.jobs.fleet.probe import probe_driver
from runtime.errors import DeviceError
from tests import opencl


@pytest.mark.parametrize("driver", opencl.every_driver())
def test_every_driver_that_works_offers_a_device(driver: Driver) -> None:
    assert "OpenCL" in probe_driver(driver)


@pytest.mark.slow
def test_a_library_that_is_no_driver_is_said(tmp_path: Path) -> None:
    library = tmp_path / "libother.so"
    library.write_bytes(b"no library")
    with pytest.raises(DeviceError, match="builds no kernel here"):
        probe_driver(Driver(library, "system", "other"))


def test_a_driver_without_a_device_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Mesa's Rusticl offers CPUs only where a variable asks for them; that it once worked is kept."""
    monkeypatch.setattr(working_drivers, "fault", lambda driver: "")
    with pytest.raises(DeviceError, match=r"does not work: .*libother\.so"):
        probe_driver(Driver(tmp_path / "libother.so", "system", "other"))
