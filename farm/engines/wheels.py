"""Wheels of an engine for the Python of a unit: pip fetches and verifies them, the unit unpacks them for one job."""

import contextlib
import dataclasses
import hashlib
import json
import platform
import re
import subprocess
import sys
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from farm import safe_text
from farm.engines.base import EngineUnit
from farm.transport.file_digest import sha256
from runtime.errors import DeviceError, JobError, UnsupportedError
from runtime.native.abi import find_abi

CACHE_FOLDER = Path("build/cache/engines")
PYTHON = "python3"
ASK_S, UNPACK_S, FETCH_S = 60.0, 900.0, 1800.0
OLDEST_GLIBC = 17  # 2.17, that of manylinux2014
GLIBC_OF_FARMRT = 28  # what farmrt needs (runtime/native/abi.py), so that a board without Python has it
_ASK = "import json,platform,sys;print(json.dumps([*sys.version_info[:2],platform.libc_ver()[1],platform.machine()]))"
_UNPACK = "import sys,zipfile\nfor wheel in sys.argv[2:]: zipfile.ZipFile(wheel).extractall(sys.argv[1])"


@dataclasses.dataclass(frozen=True)
class UnitPython:
    """The Python of a unit: its version `3.11`, the minor version of its glibc, its machine."""

    version: str
    glibc: int
    machine: str

    @property
    def platforms(self) -> list[str]:
        """The platform tags whose wheels it takes."""
        return [f"manylinux_2_{minor}_{self.machine}" for minor in range(self.glibc, OLDEST_GLIBC - 1, -1)]


@dataclasses.dataclass(frozen=True)
class UnpackedWheels:
    """Wheels on a unit: the folder that they are unpacked in, a hash of them all, the bytes of what is in them."""

    folder: str
    sha256: str
    size_bytes: int


def own_python() -> UnitPython:
    """The Python that farm runs in."""
    glibc = re.fullmatch(r"2\.(\d{1,3})", platform.libc_ver()[1])
    major, minor, *_ = platform.python_version_tuple()
    return UnitPython(f"{major}.{minor}", int(glibc[1]) if glibc else OLDEST_GLIBC, platform.machine())


def ask_python(unit: EngineUnit, engine: str) -> UnitPython:
    """The Python of a unit; UnsupportedError where it can have none, DeviceError where it has none that serves."""
    if find_abi(unit.abi).is_android:
        raise UnsupportedError(f"engine {engine} runs on hosts and ARM boards, in their Python; Android has none")
    asked = unit.transport.run([PYTHON, "-c", _ASK], ASK_S)
    answer = asked.stdout.decode(errors="replace").strip()
    if asked.exit_status:
        raise DeviceError(f"engine {engine} needs {PYTHON} on {unit.name}: apt install {PYTHON}")
    with contextlib.suppress(ValueError, TypeError):
        major, minor, glibc, machine = json.loads(answer)
        found = re.fullmatch(r"2\.(\d{1,3})", glibc)
        if found and re.fullmatch(r"\w{1,20}", machine):
            return UnitPython(f"{int(major)}.{int(minor)}", int(found[1]), machine)
    said = safe_text.word(answer)
    raise DeviceError(f"engine {engine} needs a {PYTHON} with glibc on {unit.name}, which answers: {said}")


def wheel_versions(package: str, python: UnitPython) -> list[str]:
    """The versions of a package that have wheels for a Python, oldest first; JobError where there is none."""
    command = ["index", "versions", "--only-binary", ":all:", *_target(python), package]
    said = _pip(command, f"pip did not list the versions of {package}", f"{package}: no wheels")
    found = re.search(r"^Available versions: (.+)$", said, re.MULTILINE)
    return [version.strip() for version in found[1].split(",")][::-1] if found else []


def _target(python: UnitPython) -> list[str]:
    platforms = [word for platform in python.platforms for word in ("--platform", platform)]
    return [*platforms, "--python-version", python.version]


def _pip(words: Sequence[str], late: str, none: str) -> str:
    """What pip prints; JobError with what it says, after `late` where it takes too long, else after `none`."""
    command = [sys.executable, "-m", "pip", *words]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=FETCH_S)
    except subprocess.TimeoutExpired:
        raise JobError(f"{late} within {FETCH_S:g} s") from None
    if done.returncode:
        errors = [line for line in done.stderr.splitlines() if line.startswith("ERROR")] or ["no words"]
        raise JobError(f"{none}: {errors[-1]}")
    return done.stdout


def fetch_wheels(packages: Sequence[str], python: UnitPython, cache: Path = CACHE_FOLDER) -> list[Path]:
    """The wheels of packages, of the cache or from where pip finds them; JobError says why it finds none."""
    folder = cache / f"{'-'.join(packages)}-{python.machine}-{python.version}-{python.glibc}"
    if not folder.is_dir():
        cache.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=cache) as scratch:
            fetched = Path(scratch, "wheels")
            command = ["download", "--quiet", "--no-deps", "--only-binary", ":all:", *_target(python)]
            named, where = " and ".join(packages), f"Python {python.version} on {python.machine}"
            none = f"pip finds no wheels of {named} for {where}"
            _pip([*command, "--dest", str(fetched), *packages], f"pip did not fetch {named}", none)
            with contextlib.suppress(OSError):  # another process was faster
                fetched.rename(folder)
    return sorted(folder.glob("*.whl"))


def _content_bytes(wheel: Path) -> int:
    with zipfile.ZipFile(wheel) as file:
        return sum(each.file_size for each in file.infolist())


@contextlib.contextmanager
def unpacked_wheels(unit: EngineUnit, wheels: Sequence[Path], python: str = PYTHON) -> Iterator[UnpackedWheels]:
    """Unpacks wheels on a unit with its Python, and removes them there in the end."""
    digest = hashlib.sha256("".join(map(sha256, wheels)).encode()).hexdigest()
    folder = f"engine-{digest[:16]}"
    remotes = unit.store.put(wheels)
    try:
        done = unit.transport.run([python, "-c", _UNPACK, folder, *(remotes[path] for path in wheels)], UNPACK_S)
        if done.exit_status:
            words = safe_text.word(done.stderr.decode(errors="replace")[-300:], 300)
            raise DeviceError(f"{unit.name}: the engine's wheels cannot be unpacked there: {words}")
        yield UnpackedWheels(folder, digest, sum(map(_content_bytes, wheels)))
    finally:
        with contextlib.suppress(JobError):
            unit.transport.run(["rm", "-rf", "--", folder], UNPACK_S)
