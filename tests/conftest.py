"""Every test runs as farm does: with an `ld` on PATH, without which PoCL cannot link kernels.

FARM_REQUIRED_DRIVERS=system,intel makes the run fail where no OpenCL driver from there works, instead of testing less;
FARM_REQUIRED=qemu,... the tests that need such a program.
"""

import gc
import importlib
import importlib.util
import os
import signal
import socket
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from farm import toolchain
from tests import adb_programs, opencl, turns

os.environ.update(toolchain.environment())
# What PoCL builds in one test, on an emulated phone or here, is not built again in the next one, nor in the next run;
# nor is farmrt, which tests build in folders of their own, from wheels and other commits. A CI may keep both.
for _variable, _folder in (("POCL_CACHE_DIR", "pocl"), ("FARM_OBJECTS", "objects")):
    os.environ.setdefault(_variable, str(Path(__file__).parents[1] / "build" / _folder))
# Images for containers set it; the hundreds of Pythons that tests start would compile the sources again each time.
# Nor would pytest keep what it makes of the tests' own, which is half of the time of collecting them.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
# A shell that starts tests in the background has them ignore Ctrl-C, and what they start too.
signal.signal(signal.SIGINT, signal.default_int_handler)
# A run that must pass draws the same cases each time: it fails for what was changed, not for what was drawn. That a
# busy machine takes long for a case is no fault.
if importlib.util.find_spec("hypothesis"):  # frameworks are tested without
    hypothesis = importlib.import_module("hypothesis")
    hypothesis.settings.register_profile("farm", derandomize="FARM_REQUIRED" in os.environ, deadline=None)
    hypothesis.settings.load_profile("farm")
# Whichever adb comes first on this machine's PATH: tests that ask for no other one have adbutils'.
if _adb := adb_programs.path_of(adb_programs.ADBUTILS):
    os.environ["PATH"] = adb_programs.search_path(_adb)
# No test meets the adb server and the phones of this machine: on this port none runs, and none can be started.
_taken = socket.socket()
_taken.bind(("127.0.0.1", 0))
os.environ["ANDROID_ADB_SERVER_PORT"] = str(_taken.getsockname()[1])
for _name in ("ADB_SERVER_SOCKET", "ANDROID_ADB_SERVER_ADDRESS"):
    os.environ.pop(_name, None)


# Thousands of tests are made and stay: while they are made, looking for garbage among them takes a fifth of the time.
gc.disable()

QUICK = "not slow"  # the marker expression of `./check`
TOLD_S = 1.0  # ten times what a quick test may take alone, since a busy machine makes each of them slow at times


def require(name: str, missing: str) -> None:
    """Skips the test for this reason (empty: nothing is missing), or fails it where FARM_REQUIRED lists the name."""
    if missing and name in os.environ.get("FARM_REQUIRED", "").split(","):
        pytest.fail(f"FARM_REQUIRED: {missing}", pytrace=False)
    if missing:
        pytest.skip(missing)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--turns", action="store_true", help="slow tests take turns (tests/turns.py)")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """With --turns, slow tests in files whose turn it is not are left out."""
    if opencl.EXHAUSTIVE or not config.getoption("--turns"):
        return
    slow = [item for item in items if item.get_closest_marker("slow")]
    files = turns.left_out({item.path for item in slow})
    out = {item for item in slow if item.path in files}
    items[:] = [item for item in items if item not in out]
    config.hook.pytest_deselected(items=out)


def pytest_collection_finish() -> None:
    gc.freeze()  # nor among them while they run
    gc.enable()


def slow_lines(reports: Sequence[pytest.TestReport]) -> list[str]:
    """Which of the quick tests took long, the longest first: told, and no failure, since that may be the machine."""
    long = [(each.duration, each.nodeid) for each in reports if each.when == "call" and each.duration > TOLD_S]
    return [
        f"quick, but took {duration_s:.1f} s; mark it slow? {test}" for duration_s, test in sorted(long, reverse=True)
    ]


@pytest.hookimpl(trylast=True)  # what the test's own fixtures do at its end may need them
def pytest_runtest_teardown() -> None:
    """Users' operators that a test, or what it called, has registered in this process are unknown to the next one."""
    if registry := sys.modules.get("runtime.custom.registry"):
        registry.forget()


def pytest_unconfigure() -> None:
    _taken.close()


def pytest_sessionstart(session: pytest.Session) -> None:
    required = set(filter(None, os.environ.get("FARM_REQUIRED_DRIVERS", "").split(",")))
    missing = required.difference(opencl.ORIGINS)
    if missing:
        pytest.exit(f"no OpenCL driver works from: {', '.join(sorted(missing))}; see `farm doctor`", returncode=1)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if terminalreporter.config.option.markexpr == QUICK:
        for line in slow_lines(terminalreporter.getreports("passed")):
            terminalreporter.line(line)
    if terminalreporter.config.option.turns and not opencl.EXHAUSTIVE:
        terminalreporter.line(
            f"slow tests: turn {turns.today()}, and of what changed; all: FARM_EXHAUSTIVE=1 make test"
        )
    for driver, fault in opencl.FAULTS.items():
        terminalreporter.line(f"not tested: {driver.name} ({driver.path}) {fault}")
