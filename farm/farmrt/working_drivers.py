"""Tells which OpenCL drivers of this machine work: each is asked to build and run a small kernel.

A compiler may be older than the machine: LLVM 14 in PyPI's PoCL knows no CPU that came after it, and builds nothing
there. A driver is asked in a process of its own, which it may end. That it works is kept in `build/drivers.json` for as
long as its file, the CPU and the version of the runtime stay the same; a fault is not kept, since what was missing may
have been installed meanwhile.

`python -m farm.farmrt.working_drivers` ends with status 1 where none works, and says why.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import platform
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from farm import atomic_file, safe_text, toolchain
from farm.farmrt.drivers import Driver, find_drivers
from runtime.errors import FarmError
from runtime.native.build import default_output_dir
from runtime.version import RUNTIME_VERSION

DEADLINE_S = 60.0
MAX_FAULT = 160
FILE = "drivers.json"
CPU_FACTS = re.compile(r"^(?:vendor_id|cpu family|model|model name|stepping|flags|CPU \w+)\s*:.*$", re.MULTILINE)
CHECK = "runtime.reference.driver_check"  # started, never imported: it loads OpenCL
TREE = Path(__file__).parents[2]


def install_advice() -> str:
    """What to install where no driver works."""
    debian = "apt install pocl-opencl-icd (as root)"
    intel = "pip install intel-opencl-rt intel-cmplr-lib-rt"
    return f"{intel}, or {debian}" if platform.machine() == "x86_64" else debian


def working(found: Iterable[Driver] | None = None) -> Iterator[Driver]:
    """Those of the drivers (default: all of this machine, in order of preference) that work; asked as far as taken."""
    return (driver for driver in (find_drivers() if found is None else found) if not fault(driver))


def best(found: Sequence[Driver]) -> Driver:
    """The first driver that works; where none does, the first, which tells why when it is used."""
    return next(working(found), found[0])


def faults(found: Iterable[Driver]) -> str:
    """What is wrong with each driver, in one line; empty where there is none."""
    return "; ".join(f"{driver.name} ({driver.path}): {fault(driver)}" for driver in found)


def fault(driver: Driver) -> str:
    """Why a driver builds no kernel here; empty where it does."""
    try:
        stat = driver.path.stat()
    except OSError as error:
        return error.strerror or str(error)
    state = f"{stat.st_size} {stat.st_mtime_ns} {RUNTIME_VERSION} {_cpu()}"
    return _fault(str(driver.path), hashlib.sha256(state.encode()).hexdigest())


@functools.cache
def _fault(library: str, state: str) -> str:
    file = default_output_dir().parent / FILE
    if _known_good(file).get(library) == state:
        return ""
    fault = _check(library)
    if not fault:
        with contextlib.suppress(FarmError):
            atomic_file.write(file, json.dumps(_known_good(file) | {library: state}, indent=1).encode())
    return fault


def _known_good(file: Path) -> dict[str, str]:
    """Library -> hash of the state in which it worked."""
    try:
        known = json.loads(file.read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    return known if isinstance(known, dict) else {}


def _check(library: str) -> str:
    command = [sys.executable, "-m", CHECK, library]
    try:
        done = subprocess.run(
            command, cwd=TREE, env=toolchain.environment(), capture_output=True, check=False, timeout=DEADLINE_S
        )
    except subprocess.TimeoutExpired:
        return f"builds no kernel within {DEADLINE_S:.0f} s"
    if done.returncode == 0:
        return ""
    message = (done.stdout or done.stderr).decode(errors="replace").strip().partition("\n")[0]
    how = f"ends its process with status {done.returncode}" if done.returncode < 0 else "builds no kernel here"
    return safe_text.word(f"{how} ({message})" if message else how, MAX_FAULT)


@functools.cache
def _cpu() -> str:
    """What tells one CPU from another: the same name stands for several generations."""
    with contextlib.suppress(OSError):
        first_core = Path("/proc/cpuinfo").read_text(errors="replace").partition("\n\n")[0]
        return " ".join(" ".join(CPU_FACTS.findall(first_core)).split())
    return platform.processor()


def main() -> int:
    """Says why no driver works, where that is so."""
    drivers = find_drivers()
    if next(working(drivers), None):
        return 0
    print(f"no OpenCL driver works here: {faults(drivers) or 'there is none'}")
    return 1


if __name__ == "__main__":
    sys.exit(main())
