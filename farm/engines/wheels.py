"""Wheels of an engine for the Python of a unit: pip fetches and verifies them, the unit unpacks them for one job."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import re
import subprocess
import sys
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
    """Wheels on a unit: the folder that they are unpacked in, a hash of them all, their size in bytes."""

    folder: str
    sha256: str
    size_bytes: int


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


def fetch_wheels(packages: Sequence[str], python: UnitPython, cache: Path = CACHE_FOLDER) -> list[Path]:
    """The wheels of packages, of the cache or from where pip finds them; JobError says why it finds none."""
    folder = cache / f"{'-'.join(packages)}-{python.machine}-{python.version}-{python.glibc}"
    if not folder.is_dir():
        cache.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=cache) as scratch:
            fetched = Path(scratch, "wheels")
            platforms = [word for platform in python.platforms for word in ("--platform", platform)]
            command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:"]
            command += [*platforms, "--python-version", python.version, "--dest", str(fetched), *packages]
            try:
                done = subprocess.run(command, capture_output=True, text=True, timeout=FETCH_S)
            except subprocess.TimeoutExpired:
                raise JobError(f"pip did not fetch {' and '.join(packages)} within {FETCH_S:g} s") from None
            if done.returncode:
                errors = [line for line in done.stderr.splitlines() if line.startswith("ERROR")] or ["no words"]
                where = f"Python {python.version} on {python.machine}"
                raise JobError(f"pip finds no wheels of {' and '.join(packages)} for {where}: {errors[-1]}")
            with contextlib.suppress(OSError):  # another process was faster
                fetched.rename(folder)
    return sorted(folder.glob("*.whl"))


@contextlib.contextmanager
def unpacked_wheels(unit: EngineUnit, wheels: Sequence[Path]) -> Iterator[UnpackedWheels]:
    """Unpacks wheels on a unit, and removes them there in the end."""
    digest = hashlib.sha256("".join(map(sha256, wheels)).encode()).hexdigest()
    folder = f"engine-{digest[:16]}"
    remotes = unit.store.put(wheels)
    try:
        done = unit.transport.run([PYTHON, "-c", _UNPACK, folder, *(remotes[path] for path in wheels)], UNPACK_S)
        if done.exit_status:
            words = safe_text.word(done.stderr.decode(errors="replace")[-300:], 300)
            raise DeviceError(f"{unit.name}: the engine's wheels cannot be unpacked there: {words}")
        yield UnpackedWheels(folder, digest, sum(path.stat().st_size for path in wheels))
    finally:
        with contextlib.suppress(JobError):
            unit.transport.run(["rm", "-rf", "--", folder], UNPACK_S)
