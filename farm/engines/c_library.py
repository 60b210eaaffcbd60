"""Engines by their C library, run by a small program of ours on the unit.

The library is that of the installed package, of the wheel for the unit's machine, or what the user has in engines.yml.
The unit needs no Python. The program is runtime/native/engine, compiled for every ABI as farmrt is.
"""

import contextlib
import dataclasses
import hashlib
import importlib.metadata
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import ClassVar

from farm import safe_text
from farm.config.engine_file import DEFAULT_FILE, LibrarySection
from farm.engines.base import EngineUnit
from farm.engines.elf import machine_of
from farm.engines.rounds import RoundsRequest
from farm.engines.user_file import check_hash, is_one_of, library_of
from farm.engines.wheels import GLIBC_OF_FARMRT, UnitPython, fetch_wheels, own_python
from farm.transport.file_digest import sha256
from runtime.errors import DeviceError, JobError, UnsupportedError
from runtime.native.abi import HOST, find_abi
from runtime.native.programs import build_engine_runner

LINK_S = 60.0
_LINK = r"""
folder=$1
shift
mkdir -p "$folder" || exit
while [ $# -gt 0 ]; do
    ln -sf "../$1" "$folder/$2" || exit
    shift 2
done
cd "$folder" && pwd
"""


@dataclasses.dataclass(frozen=True)
class LibraryPlace:
    """An engine's C library and the program that runs it, here; `version` empty: as the library says.

    `beside` are further libraries, in a folder on the unit where that program finds them.
    """

    word: str
    program: Path
    library: Path
    version: str = ""
    beside: tuple[Path, ...] = ()
    folder: str = ""
    settings: ClassVar[Mapping[str, str]] = {"runner": "c"}

    @property
    def package(self) -> str:
        """What has the engine."""
        return self.library.name

    @property
    def hashes(self) -> dict[str, str]:
        """SHA-256 by role."""
        return {"engine": sha256(self.library), **{path.name: sha256(path) for path in self.beside}}

    @property
    def kept(self) -> dict[str, Path]:
        """What can be had by these files alone, not by a version."""
        return {} if self.version else {"engine": self.library, **{path.name: path for path in self.beside}}

    @property
    def size_bytes(self) -> int:
        """Of the libraries."""
        return sum(path.stat().st_size for path in (self.library, *self.beside))

    def files(self, folder: Path) -> list[Path]:
        """What is put on the unit."""
        return [self.program, self.library]

    def argv(self, remotes: Sequence[str], request: RoundsRequest) -> list[str]:
        """The command line, where `files` lie at `remotes`."""
        numbers = {"threads": request.threads or 0, "rounds": request.rounds, "warmup": request.warmup}
        found = [f"{name}={self.folder}" for name in ("LD_LIBRARY_PATH", "ADSP_LIBRARY_PATH")]  # the latter: of DSPs
        words = [*(["env", *found] if self.folder else []), *remotes[:1], self.word, *remotes[1:]]
        words += ["model", request.files["model"]]
        words += [word for name, number in numbers.items() for word in (name, str(number))]
        for key, pairs in (("option", request.options), ("input", request.inputs), ("output", request.outputs)):
            words += [word for name, value in pairs.items() for word in (key, name, value)]
        return words


@contextlib.contextmanager
def package_library(
    unit: EngineUnit, word: str, package: str, version: str, names: Sequence[str]
) -> Iterator[LibraryPlace]:
    """The library of an installed package for this machine, else of the wheel for the unit's machine."""
    if find_abi(unit.abi).is_android:
        raise UnsupportedError(
            f"engine {word} needs its C library for {unit.abi}, which no wheel has: name a file in {DEFAULT_FILE}, "
            f"under libraries.{word}.file.{unit.abi}"
        )
    program = build_engine_runner(unit.abi)
    installed = _installed_library(package, names)
    if installed and unit.abi == HOST and version in ("", installed[1]):
        yield LibraryPlace(word, program, *installed)
        return
    wanted = f"{package}=={version}" if version else package
    python = own_python() if unit.is_here else UnitPython(own_python().version, GLIBC_OF_FARMRT, machine_of(unit.abi))
    (wheel,) = fetch_wheels([wanted], python)
    with TemporaryDirectory() as scratch:
        library = library_of(word, wheel, unit.abi, names, Path(scratch))
        yield LibraryPlace(word, program, library, wheel.name.split("-")[1])


@contextlib.contextmanager
def user_library(unit: EngineUnit, word: str, files: LibrarySection, names: Sequence[str]) -> Iterator[LibraryPlace]:
    """The library that engines.yml names for a unit's ABI, or that is in the archive that it names."""
    path, abi = Path(files.file[unit.abi]), unit.abi  # type: ignore[index]
    check_hash(word, path, files.sha256.get(abi))  # type: ignore[call-overload]
    beside = tuple(map(Path, files.beside.get(abi, ())))  # type: ignore[call-overload]
    with contextlib.ExitStack() as stack:
        scratch = Path(stack.enter_context(TemporaryDirectory()))
        for each in beside:
            check_hash(word, each, None)
            library_of(word, each, abi, (each.name,), scratch)
        folder = stack.enter_context(_linked(unit, beside)) if beside else ""
        library = library_of(word, path, abi, names, scratch)
        yield LibraryPlace(word, build_engine_runner(abi), library, beside=beside, folder=folder)


@contextlib.contextmanager
def _linked(unit: EngineUnit, files: Sequence[Path]) -> Iterator[str]:
    """A folder on the unit that has files by their names, by its whole path; removed in the end."""
    remotes = unit.store.put(files)
    digest = hashlib.sha256("".join(map(sha256, files)).encode()).hexdigest()
    folder = f"engine-{digest[:16]}"
    pairs = [word for path in files for word in (remotes[path], path.name)]
    try:
        done = unit.transport.run(["sh", "-c", _LINK, "link", folder, *pairs], LINK_S)
        if done.exit_status:
            words = safe_text.word(done.stderr.decode(errors="replace")[-300:], 300)
            raise DeviceError(f"{unit.name}: the engine's libraries cannot be linked there: {words}")
        yield done.stdout.decode(errors="replace").strip()
    finally:
        with contextlib.suppress(JobError):
            unit.transport.run(["rm", "-rf", "--", folder], LINK_S)


def _installed_library(package: str, names: Sequence[str]) -> tuple[Path, str] | None:
    """The library of a package on this machine, and the package's version."""
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
        found = importlib.metadata.distribution(package)
        for file in found.files or ():
            if is_one_of(file.name, names):
                return Path(str(found.locate_file(file))), found.version
    return None
