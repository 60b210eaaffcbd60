"""Tells which OpenCL drivers of this machine work: each is asked to build and run a small kernel.

A compiler may be older than the machine: LLVM 14 in PyPI's PoCL knows no CPU that came after it, and builds nothing
there. A driver is asked in a process of its own, which it may end. That it works is kept in `build/drivers.json` for as
long as its file, the CPU, the version of the runtime and the variables that switch devices on stay the same; a fault is
not kept, since what was missing may have been installed meanwhile.

`python -m farm.farmrt.working_drivers` ends with status 1 where none works, and says why.
"""

import contextlib
import dataclasses
import functools
import hashlib
import json
import os
import platform
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from farm import atomic_file, safe_text, toolchain
from farm.farmrt.drivers import Driver, find_drivers
from runtime.errors import DeviceError, FarmError
from runtime.native.build import default_output_dir
from runtime.version import RUNTIME_VERSION

DEADLINE_S = 60.0
MAX_WORDS = 160
# Drivers offer other devices, or none, by these variables; a played GPU is what its profile says.
SWITCHES = ("RUSTICL_ENABLE", "POCL_DEVICES", "FARM_PLAYED_GPU", "FARM_PLAYED_KEYS")
FILE = "drivers.json"
CPU_FACTS = re.compile(r"^(?:vendor_id|cpu family|model|model name|stepping|flags|CPU \w+)\s*:.*$", re.MULTILINE)
CHECK = "runtime.reference.driver_check"  # started, never imported: it loads OpenCL
TRACEBACK = "Traceback (most recent call last):"  # its last line is the one that says what went wrong
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
    return _answer(driver).fault


def device(driver: Driver) -> str:
    """The device that a driver offers, and its version, in words; raises DeviceError where the driver does not work."""
    answer = _answer(driver)
    if answer.fault:
        raise DeviceError(answer.fault)
    return answer.device


@dataclasses.dataclass(frozen=True)
class _Answer:
    """What came of asking a driver: its device in words, or its fault."""

    device: str = ""
    fault: str = ""


def _answer(driver: Driver) -> _Answer:
    try:
        stat = driver.path.stat()
    except OSError as error:
        return _Answer(fault=error.strerror or str(error))
    switches = [os.environ.get(name) for name in SWITCHES]
    state = f"{stat.st_size} {stat.st_mtime_ns} {RUNTIME_VERSION} {_cpu()} {switches}"
    return _kept_answer(str(driver.path), hashlib.sha256(state.encode()).hexdigest())


@functools.cache
def _kept_answer(library: str, state: str) -> _Answer:
    file = default_output_dir().parent / FILE
    kept = _known_good(file).get(library)
    if kept and kept[0] == state:
        return _Answer(str(kept[1]))
    answer = _ask(library)
    if not answer.fault:
        with contextlib.suppress(FarmError):
            known = _known_good(file) | {library: [state, answer.device]}
            atomic_file.write(file, json.dumps(known, indent=1).encode())
    return answer


def _known_good(file: Path) -> dict[str, list[str]]:
    """Library -> hash of the state in which it worked, and the device that it offered."""
    try:
        known = json.loads(file.read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    entries = known.items() if isinstance(known, dict) else ()
    return {library: entry for library, entry in entries if isinstance(entry, list) and len(entry) == 2}


def _ask(library: str) -> _Answer:
    command = [sys.executable, "-m", CHECK, library]
    try:
        done = subprocess.run(
            command, cwd=TREE, env=toolchain.environment(), capture_output=True, check=False, timeout=DEADLINE_S
        )
    except subprocess.TimeoutExpired:
        return _Answer(fault=f"builds no kernel within {DEADLINE_S:.0f} s")
    said, errors = (text.decode(errors="replace").strip().splitlines() for text in (done.stdout, done.stderr))
    if done.returncode == 0:
        return _Answer(safe_text.word(said[-1] if said else "", MAX_WORDS))
    message = (said or errors[-1 if TRACEBACK in errors else 0 :] or [""])[0]
    how = f"ends its process with status {done.returncode}" if done.returncode < 0 else "builds no kernel here"
    return _Answer(fault=safe_text.word(f"{how} ({message})" if message else how, MAX_WORDS))


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
