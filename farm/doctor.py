"""Looks at this machine: what is there, what is missing, and what to do about it.

Nothing is loaded into this process; what a driver really offers is asked through `probe`, where the caller gives one.
"""

import dataclasses
import importlib.metadata
import os
import re
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal

from farm import safe_text, toolchain
from farm.farmrt import drivers
from farm.farmrt.drivers import Driver
from farm.farmrt.working_drivers import install_advice
from farm.transport import adb_server
from farm.transport.adb import remedy
from farm.transport.adb_server import AdbServer
from runtime.errors import ConfigError, FarmError, JobError
from runtime.host import extras

State = Literal["ok", "advice", "missing", "not tried"]
Probe = Callable[[Driver], str]

DISTRIBUTION = "farm"
MIN_PYTHON = (3, 11)
MIN_FREE_BYTES = 2 * 1024**3
MAX_FOUND = 200
ADB_S = 5.0
INSTALL = "make setup, or pip install farm again"
ORIGINS = {
    "environment": "named in the environment",
    "system": "from the system",
    "intel": "from PyPI",
    "pypi": "from PyPI",
}


@dataclasses.dataclass(frozen=True)
class Check:
    """One thing that was looked at: `missing` stops the main job, `advice` only limits or slows it.

    `not tried` is a driver behind one that works: starting one may take tens of seconds.
    """

    name: str
    state: State
    found: str
    advice: str = ""


def examine(
    probe: Probe | None = None, environment: Mapping[str, str] | None = None, every: bool = False
) -> Iterator[Check]:
    """All checks, each as soon as it is known.

    `probe(driver)` returns the device that a driver offers in a word, or raises JobError; `every`: drivers behind the
    first one that works are asked too.
    """
    environment = os.environ if environment is None else environment
    search_path = environment.get("PATH", os.defpath)
    yield _python()
    yield _packages()
    yield _compiler(search_path)
    yield _linker(search_path)
    yield from _opencl(drivers.find_drivers(environment), probe, every)
    yield from _dangling(environment)
    yield from _adb()
    yield _program("ssh", "boards", search_path, "apt install openssh-client")
    yield _disk(Path.cwd())


def _python() -> Check:
    version = ".".join(map(str, sys.version_info[:3]))
    if sys.version_info >= MIN_PYTHON:
        return Check("python", "ok", version)
    return Check("python", "missing", version, f"install Python {MIN_PYTHON[0]}.{MIN_PYTHON[1]} or later")


def _packages() -> Check:
    names = required_packages()
    absent = [name for name in names if not _installed(name)]
    if absent:
        return Check("packages", "missing", f"not installed: {', '.join(absent)}", INSTALL)
    return Check("packages", "ok", f"all {len(names)} installed")


def required_packages() -> list[str]:
    """Names of the packages that running needs, as this distribution declares them."""
    declared = importlib.metadata.requires(DISTRIBUTION) or []
    needed = (text for text in declared if "extra ==" not in text)
    return [match.group() for text in needed if (match := re.match(r"[A-Za-z0-9._-]+", text))]


def _installed(name: str) -> bool:
    try:
        importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


def _compiler(search_path: str) -> Check:
    found = shutil.which("cc", path=search_path)
    if found:
        return Check("C compiler", "ok", found)
    if zig := toolchain.find_zig():
        return Check("C compiler", "ok", f"{zig} cc (ziglang)")
    return Check(
        "C compiler", "missing", "neither cc nor ziglang", f"apt install gcc, or {extras.install_command('ziglang')}"
    )


def _linker(search_path: str) -> Check:
    found = shutil.which("ld", path=search_path)
    if found:
        return Check("linker", "ok", found)
    if zig := toolchain.find_zig():
        return Check("linker", "ok", f"{zig} ld.lld (ziglang)")
    return Check(
        "linker",
        "missing",
        "neither ld nor ziglang; PoCL cannot link kernels",
        f"apt install binutils, or {extras.install_command('ziglang')}",
    )


def _opencl(found: Sequence[Driver], probe: Probe | None, every: bool) -> Iterator[Check]:
    """Each driver; the first that works is the preferred one, and those that do not only matter where none does."""
    if not found:
        yield Check("OpenCL driver", "missing", "none", f"{INSTALL} (brings PoCL), or {install_advice()}")
    works: Driver | None = None
    faulty: list[tuple[str, str]] = []
    for driver in found:
        words = f"{driver.name} {ORIGINS[driver.origin]}{'' if works else ', preferred'}: {driver.path}"
        if works and not every:
            yield Check("OpenCL driver", "not tried", f"{words}; `farm doctor --all` tries it")
            continue
        device, error = _answer(driver, probe)
        if not error:
            works = works or driver
            yield Check("OpenCL driver", "ok", f"{words}{device}")
        else:
            faulty.append((words.replace(", preferred", ""), error))
    for words, error in faulty:
        advice = f"not needed: {works.name} works" if works else f"{install_advice()}, or reinstall it"
        yield Check("OpenCL driver", "advice" if works else "missing", f"{words}: {error}", advice)
    if works and (works.origin, works.name) == ("pypi", "PoCL"):
        yield Check("OpenCL speed", "advice", "only PoCL from PyPI", f"{install_advice()}: up to ten times faster")


def _answer(driver: Driver, probe: Probe | None) -> tuple[str, str]:
    """The device that a driver offers, and why it does not work: one of both is empty."""
    try:
        return (f" ({probe(driver)})" if probe else ""), ""
    except JobError as error:
        return "", str(error)


def _dangling(environment: Mapping[str, str]) -> Iterator[Check]:
    for dangling in drivers.find_dangling(environment):
        found = f"{dangling.entry} names {dangling.library}, which is not there"
        yield Check("OpenCL driver", "advice", found, "reinstall that driver, or delete the entry")


def _adb() -> Iterator[Check]:
    """The program, the server where one runs (none is started here), and the phones that it knows."""
    try:
        yield Check("adb", "ok", adb_server.find_adb())
    except ConfigError:
        yield Check("adb", "advice", "not found; only phones need it", "apt install adb")
    try:
        yield from _adb_server(AdbServer())
    except FarmError as error:
        advice = "name a port of adb's own in ANDROID_ADB_SERVER_PORT, or end what answers there"
        yield Check("adb server", "advice", safe_text.word(error, MAX_FOUND), advice)


def _adb_server(server: AdbServer) -> Iterator[Check]:
    if not server.is_running():
        yield Check("adb server", "ok", f"none on {server.place}; farm starts one when a phone needs it")
        return
    deadline = time.monotonic() + ADB_S
    yield Check("adb server", "ok", f"version {server.version(deadline)} on {server.place}")
    for phone in server.devices(deadline):
        state: State = "ok" if phone.state == "device" else "advice"
        found = safe_text.word(f"{phone.serial} {phone.model}: {phone.state}".replace(" :", ":"), MAX_FOUND)
        yield Check("phone", state, found, remedy(phone.state))


def _program(name: str, purpose: str, search_path: str, install: str) -> Check:
    found = shutil.which(name, path=search_path)
    if found:
        return Check(name, "ok", found)
    return Check(name, "advice", f"not found; only {purpose} need it", install)


def _disk(folder: Path) -> Check:
    if not os.access(folder, os.W_OK | os.X_OK):
        return Check("disk", "missing", f"{folder} may not be written to", "call farm in a folder of your own")
    free_bytes = shutil.disk_usage(folder).free
    found = f"{free_bytes / 1024**3:.1f} GiB free in {folder}"
    if free_bytes >= MIN_FREE_BYTES:
        return Check("disk", "ok", found)
    return Check("disk", "advice", found, f"free {MIN_FREE_BYTES // 1024**3} GiB for downloads, plans and weights")
