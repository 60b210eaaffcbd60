import importlib.util
import platform
import shutil
import socketserver
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from farm import doctor, toolchain
from farm.doctor import Check
from farm.farmrt import drivers
from farm.farmrt.drivers import DanglingEntry, Driver
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
    checks = list(doctor.examine())
    assert [check for check in checks if check.state == "missing"] == []
    assert named("OpenCL driver", checks).found == "PoCL from the system, preferred: /usr/lib/libpocl.so.2"


def test_every_complaint_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(toolchain, "find_zig", lambda: None)
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: shutil._ntuple_diskusage(10, 10, 0))  # type: ignore[attr-defined]
    monkeypatch.setattr(doctor, "required_packages", lambda: ["numpy", "no-such-package"])
    monkeypatch.setenv("ANDROID_ADB_SERVER_PORT", "none")
    monkeypatch.setattr(shutil, "which", lambda name, path=None: None)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    found(monkeypatch)
    checks = list(doctor.examine(environment={"PATH": str(tmp_path)}))
    assert [check.name for check in checks if check.state == "missing"] == [
        "packages",
        "C compiler",
        "linker",
        "OpenCL driver",
    ]
    assert [check.name for check in checks if check.state == "advice"] == ["adb", "adb server", "ssh", "disk"]
    assert all(check.advice for check in checks if check.state != "ok")
    assert named("packages", checks).found == "not installed: no-such-package"


def test_a_folder_that_may_not_be_written_to_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.access", lambda path, mode: False)
    check = named("disk", list(doctor.examine()))
    assert (check.state, check.found.endswith(" may not be written to")) == ("missing", True)


def test_ziglang_stands_in_for_compiler_and_linker(tmp_path: Path) -> None:
    checks = list(doctor.examine(environment={"PATH": str(tmp_path)}))
    assert named("C compiler", checks).found.endswith("zig cc (ziglang)")
    assert named("linker", checks).state == "ok"


def test_only_pypis_driver_brings_the_advice_to_install_debians(monkeypatch: pytest.MonkeyPatch) -> None:
    found(monkeypatch, PYPI)
    check = named("OpenCL speed", [*doctor.examine()])
    assert (check.state, "apt install pocl-opencl-icd" in check.advice) == ("advice", True)


def test_an_entry_that_leads_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    dangling = DanglingEntry(Path("/etc/OpenCL/vendors/x.icd"), "libx.so")
    monkeypatch.setattr(drivers, "find_dangling", lambda environment: [dangling])
    found_texts = [check.found for check in doctor.examine()]
    assert "/etc/OpenCL/vendors/x.icd names libx.so, which is not there" in found_texts


def test_a_probe_tells_the_device_or_why_there_is_none() -> None:
    def probe(driver: Driver) -> str:
        if driver is DEBIAN:
            raise DeviceError("no device")
        return "pthread-cpu, 2 units"

    works, broken = [check for check in doctor.examine(probe) if check.name == "OpenCL driver"]
    assert (broken.state, broken.found.endswith(": no device")) == ("advice", True)
    assert broken.advice == "not needed: PoCL works"
    assert works == Check("OpenCL driver", "ok", "PoCL from PyPI, preferred: /venv/libpocl-1.so (pthread-cpu, 2 units)")


@pytest.mark.parametrize(("every", "asked"), [(False, [DEBIAN]), (True, [DEBIAN, PYPI])])
def test_drivers_behind_one_that_works_are_asked_only_where_all_are_wanted(every: bool, asked: list[Driver]) -> None:
    probed: list[Driver] = []

    def probe(driver: Driver) -> str:
        probed.append(driver)
        return "a device"

    states = [check.state for check in doctor.examine(probe, every=every) if check.name == "OpenCL driver"]
    assert (probed, states) == (asked, ["ok", "ok" if every else "not tried"])


def test_where_no_driver_works_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    def probe(driver: Driver) -> str:
        raise DeviceError("builds no kernel here (error: unknown target CPU 'generic')")

    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    checks = [check for check in doctor.examine(probe) if check.name.startswith("OpenCL")]
    assert [check.state for check in checks] == ["missing", "missing"]
    assert all("pip install intel-opencl-rt intel-cmplr-lib-rt" in check.advice for check in checks)
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    assert "intel" not in named("OpenCL driver", [*doctor.examine(probe)]).advice


def test_required_packages_are_those_of_the_distribution() -> None:
    names = doctor.required_packages()
    assert {"numpy", "onnx", "pyopencl"} <= set(names)
    assert "pytest" not in names


@contextmanager
def answering(answers: Mapping[str, bytes], monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What listens on the adb server's port, and answers each question so."""

    class Answer(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            if size := self.rfile.read(4):
                self.wfile.write(answers[self.rfile.read(int(size, 16)).decode()])

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Answer) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        monkeypatch.setenv("ANDROID_ADB_SERVER_PORT", str(server.server_address[1]))
        yield
        server.shutdown()


def test_phones_are_told_with_what_to_do_about_them(monkeypatch: pytest.MonkeyPatch) -> None:
    phones = b"0123 device model:MI_8\n4567 unauthorized usb:1-1\nevil\x1b[2J offline\n"
    answers = {"host:version": b"OKAY00040029", "host:devices-l": b"OKAY%04x%s" % (len(phones), phones)}
    with answering(answers, monkeypatch):
        checks = list(doctor.examine())
    assert named("adb server", checks).found.startswith("version 41 on port ")
    ready, refused, hostile = [check for check in checks if check.name == "phone"]
    assert ready == Check("phone", "ok", "0123 MI_8: device")
    assert (refused.state, refused.found) == ("advice", "4567: unauthorized")
    assert "accept the dialogue" in refused.advice
    assert hostile.found == r"evil\x1b[2J: offline"


def test_no_server_is_started_by_looking(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANDROID_ADB_SERVER_PORT", "1")
    check = named("adb server", [*doctor.examine()])
    assert (check.state, check.found.startswith("none on port 1;")) == ("ok", True)


@pytest.mark.parametrize("answer", [b"HTTP/1.1 400 Bad Request", b"OKAY0003new", b"OKAYlong", b"OK", b""])
def test_another_program_on_the_servers_port(monkeypatch: pytest.MonkeyPatch, answer: bytes) -> None:
    with answering({"host:version": answer}, monkeypatch):
        check = named("adb server", [*doctor.examine()])
    assert (check.state, ("is no adb server" in check.found or "it closed the connection" in check.found)) == (
        "advice",
        True,
    )
    assert "ANDROID_ADB_SERVER_PORT" in check.advice
