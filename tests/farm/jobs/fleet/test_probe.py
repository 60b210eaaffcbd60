"""The doctor's probe tells a driver that works from one that does not."""

from __future__ import annotations

from pathlib import Path

import pytest

from farm.farmrt.drivers import Driver, find_drivers
from farm.jobs.fleet.probe import probe_driver
from runtime.errors import DeviceError


def test_every_driver_found_here_offers_a_device() -> None:
    for driver in find_drivers():
        assert "OpenCL" in probe_driver(driver)


def test_a_library_that_is_no_driver_is_said(tmp_path: Path) -> None:
    library = tmp_path / "libother.so"
    library.write_bytes(b"no library")
    with pytest.raises(DeviceError, match="does not work"):
        probe_driver(Driver(library, "system", "other"))
