from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from farm import doctor, drivers, toolchain
from farm.doctor import Check
from farm.drivers import Dangling, Driver
from runtime.errors import DeviceError

DEBIAN = Driver(Path("/usr/lib/libpocl.so.2"), "system", "PoCL")
PYPI = Driver(Path("/venv/libpocl-1.so"), "pypi", "PoCL")


@pytest.fixture(autouse=True)
def two_drivers(monkeypatch: pytest.MonkeyPatch) -> None:
    found(monkeypatch, DEBIAN, PYPI)


def found(monkeypatch: pytest.MonkeyPatch, *there: Driver) -> None:
    monkeypatch.setattr(drivers, "find_drivers", lambda environment: list(there))
    monkeypatch.setattr(drivers, "find_dangling", lambda environment: [])


def named(name: str, checks: list[Check]) -> Check:
    return next(check for check in checks if check.name == name)


def test_a_complete_machine_misses_nothing() -> None:
    checks = doctor.examine()
    assert [check for check in checks if check.state == "missing"] == []
    assert named("OpenCL driver", checks).found == "PoCL from the system, preferred: /usr/lib/libpocl.so.2"


def test_every_complaint_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(toolchain, "find_zig", lambda: None)
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: shutil._ntuple_diskusage(10, 10, 0))  # type: ignore[attr-defined]
    monkeypatch.setattr(doctor, "required_packages", lambda: ["numpy", "no-such-package"])
    found(monkeypatch)
    checks = doctor.examine(environment={"PATH": str(tmp_path)})
    assert [check.name for check in checks if check.state == "missing"] == [
        "packages",
        "C compiler",
        "linker",
        "OpenCL driver",
    ]
    assert [check.name for check in checks if check.state == "advice"] == ["adb", "ssh", "disk"]
    assert all(check.advice for check in checks if check.state != "ok")
    assert named("packages", checks).found == "not installed: no-such-package"


def test_ziglang_stands_in_for_compiler_and_linker(tmp_path: Path) -> None:
    checks = doctor.examine(environment={"PATH": str(tmp_path)})
    assert named("C compiler", checks).found.endswith("zig cc (ziglang)")
    assert named("linker", checks).state == "ok"


def test_only_pypis_driver_brings_the_advice_to_install_debians(monkeypatch: pytest.MonkeyPatch) -> None:
    found(monkeypatch, PYPI)
    check = named("OpenCL speed", doctor.examine())
    assert (check.state, "apt install pocl-opencl-icd" in check.advice) == ("advice", True)


def test_an_entry_that_leads_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    dangling = Dangling(Path("/etc/OpenCL/vendors/x.icd"), "libx.so")
    monkeypatch.setattr(drivers, "find_dangling", lambda environment: [dangling])
    found_texts = [check.found for check in doctor.examine()]
    assert "/etc/OpenCL/vendors/x.icd names libx.so, which is not there" in found_texts


def test_a_probe_tells_the_device_or_why_there_is_none() -> None:
    def probe(driver: Driver) -> str:
        if driver is DEBIAN:
            raise DeviceError("no device")
        return "pthread-cpu, 2 units"

    broken, works = [check for check in doctor.examine(probe) if check.name == "OpenCL driver"]
    assert (broken.state, broken.found.endswith(": no device"), bool(broken.advice)) == ("missing", True, True)
    assert (works.state, works.found.endswith("(pthread-cpu, 2 units)")) == ("ok", True)


def test_required_packages_are_those_of_the_distribution() -> None:
    names = doctor.required_packages()
    assert {"numpy", "onnx", "pyopencl"} <= set(names)
    assert "pytest" not in names
