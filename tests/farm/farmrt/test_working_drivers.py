"""A driver works when it builds and runs a kernel in a process of its own; that is asked once."""

import dataclasses
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from farm.farmrt import working_drivers
from farm.farmrt.drivers import Driver
from runtime.errors import DeviceError
from tests import opencl

each_driver = pytest.mark.parametrize("driver", opencl.every_driver())


@pytest.fixture(autouse=True)
def build_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A build folder in which no answer is kept yet."""
    monkeypatch.setattr(working_drivers, "default_output_dir", lambda: tmp_path / "build" / "farmrt")
    working_drivers._kept_answer.cache_clear()
    return tmp_path / "build"


@pytest.fixture
def library(tmp_path: Path) -> Driver:
    path = tmp_path / "libother.so"
    path.write_bytes(b"no library")
    return Driver(path, "system", "other")


class Asked:
    """Stands for the process that asks a driver: counts how often, answers as told."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, exit_status: int, said: bytes = b"") -> None:
        self.done = subprocess.CompletedProcess([], exit_status, said, b"")
        self.times = 0
        monkeypatch.setattr(subprocess, "run", self)

    def __call__(self, *_: Any, **__: Any) -> subprocess.CompletedProcess[bytes]:
        self.times += 1
        return self.done


def forget() -> None:
    """As in a new process."""
    working_drivers._kept_answer.cache_clear()


@pytest.mark.slow
@each_driver
def test_a_driver_that_works_is_asked_once(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    assert working_drivers.fault(driver) == ""
    assert "OpenCL" in working_drivers.device(driver)
    asked = Asked(monkeypatch, 1)
    forget()
    assert working_drivers.fault(driver) == ""
    assert asked.times == 0


@pytest.mark.slow
def test_what_is_no_driver_says_why(library: Driver) -> None:
    assert "builds no kernel here (" in working_drivers.fault(library)
    assert str(library.path) in working_drivers.faults([library])
    gone = dataclasses.replace(library, path=library.path.with_name("gone.so"))
    assert working_drivers.fault(gone) == "No such file or directory"


def test_a_driver_that_ends_its_process_is_passed_over(library: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    Asked(monkeypatch, -6, b"LLVM ERROR: out of registers\nand more")
    assert working_drivers.fault(library) == "ends its process with status -6 (LLVM ERROR: out of registers)"
    assert list(working_drivers.working([library])) == []
    assert working_drivers.best([library]) is library


def test_a_traceback_is_told_by_its_last_line(library: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = Asked(monkeypatch, 1)
    asked.done.stderr = b"Traceback (most recent call last):\n  File 'x', line 1\nImportError: libmpi.so: not found\n"
    assert working_drivers.fault(library) == "builds no kernel here (ImportError: libmpi.so: not found)"


def test_the_device_of_a_driver_is_kept_with_the_answer(library: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    Asked(monkeypatch, 0, b"noise\npthread-x, OpenCL 3.0 PoCL 3.1\n")
    assert working_drivers.device(library) == "pthread-x, OpenCL 3.0 PoCL 3.1"
    forget()
    Asked(monkeypatch, 1)
    assert working_drivers.device(library) == "pthread-x, OpenCL 3.0 PoCL 3.1"
    monkeypatch.setenv("POCL_DEVICES", "none")
    with pytest.raises(DeviceError, match="builds no kernel here"):
        working_drivers.device(library)


def test_a_driver_that_hangs_is_passed_over(library: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    def hang(command: list[str], **settings: Any) -> None:
        raise subprocess.TimeoutExpired(command, settings["timeout"])

    monkeypatch.setattr(subprocess, "run", hang)
    assert working_drivers.fault(library) == "builds no kernel within 60 s"


def test_a_fault_is_not_kept(library: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = Asked(monkeypatch, 1)
    assert working_drivers.fault(library)
    assert working_drivers.fault(library)
    forget()
    assert working_drivers.fault(library)
    assert asked.times == 2, "once in each process"


@pytest.mark.parametrize("change", ["library", "cpu", "answers"])
def test_what_has_changed_is_asked_again(
    change: str, library: Driver, build_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = Asked(monkeypatch, 0)
    assert not working_drivers.fault(library)
    if change == "library":
        os.utime(library.path, ns=(1, 1))
    if change == "cpu":
        monkeypatch.setattr(working_drivers, "_cpu", lambda: "another")
    if change == "answers":
        (build_folder / "drivers.json").write_bytes(b"[")
    forget()
    assert not working_drivers.fault(library)
    assert asked.times == 2


def test_the_set_up_asks_whether_any_driver_works(
    library: Driver, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(working_drivers, "find_drivers", lambda: [library])
    Asked(monkeypatch, 1, b"error: unknown target CPU 'generic'")
    assert working_drivers.main() == 1
    assert "builds no kernel here (error: unknown target CPU 'generic')" in capsys.readouterr().out
    forget()
    Asked(monkeypatch, 0)
    assert working_drivers.main() == 0
