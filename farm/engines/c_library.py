"""Engines by their C library, run by a small program of ours on the unit.

The library is that of the installed package, of the wheel for the unit's machine, or what the user has in engines.yml.
The unit needs no Python. The program is runtime/native/engine, compiled for every ABI as farmrt is.
"""

from __future__ import annotations

import contextlib
import dataclasses
import importlib.metadata
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import ClassVar

from farm.config.engine_file import DEFAULT_FILE
from farm.engines.base import EngineUnit
from farm.engines.elf import machine_of
from farm.engines.rounds import RoundsRequest
from farm.engines.user_file import check_hash, is_one_of, library_of
from farm.engines.wheels import GLIBC_OF_FARMRT, UnitPython, fetch_wheels, own_python
from farm.transport.file_digest import sha256
from runtime.errors import UnsupportedError
from runtime.native.abi import HOST, find_abi
from runtime.native.programs import build_engine_runner


@dataclasses.dataclass(frozen=True)
class LibraryPlace:
    """An engine's C library and the program that runs it, here; `version` empty: as the library says."""

    word: str
    program: Path
    library: Path
    version: str = ""
    settings: ClassVar[Mapping[str, str]] = {"runner": "c"}

    @property
    def package(self) -> str:
        """What has the engine."""
        return self.library.name

    @property
    def sha256(self) -> str:
        """Of the library."""
        return sha256(self.library)

    @property
    def size_bytes(self) -> int:
        """Of the library."""
        return self.library.stat().st_size

    def files(self, folder: Path) -> list[Path]:
        """What is put on the unit."""
        return [self.program, self.library]

    def argv(self, remotes: Sequence[str], request: RoundsRequest) -> list[str]:
        """The command line, where `files` lie at `remotes`."""
        numbers = {"threads": request.threads or 0, "rounds": request.rounds, "warmup": request.warmup}
        words = [*remotes[:1], self.word, *remotes[1:], "model", request.files["model"]]
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
def user_library(
    unit: EngineUnit, word: str, file: str, digest: str | None, names: Sequence[str]
) -> Iterator[LibraryPlace]:
    """The library that engines.yml names, or that is in the archive that it names."""
    path = Path(file)
    check_hash(word, path, digest)
    with TemporaryDirectory() as scratch:
        library = library_of(word, path, unit.abi, names, Path(scratch))
        yield LibraryPlace(word, build_engine_runner(unit.abi), library)


def _installed_library(package: str, names: Sequence[str]) -> tuple[Path, str] | None:
    """The library of a package on this machine, and the package's version."""
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
        found = importlib.metadata.distribution(package)
        for file in found.files or ():
            if is_one_of(file.name, names):
                return Path(str(found.locate_file(file))), found.version
    return None
