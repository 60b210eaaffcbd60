"""Engines by their C library: in the installed package or the wheel, run by a small program of ours on the unit.

The unit needs no Python. The program is runtime/native/engine, compiled for every ABI as farmrt is.
"""

from __future__ import annotations

import contextlib
import dataclasses
import fnmatch
import importlib.metadata
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import ClassVar

from farm.engines.base import EngineUnit
from farm.engines.elf import machine_of
from farm.engines.rounds import RoundsRequest
from farm.engines.wheels import GLIBC_OF_FARMRT, UnitPython, fetch_wheels, own_python
from farm.transport.file_digest import sha256
from runtime.errors import DeviceError, UnsupportedError
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
        raise UnsupportedError(f"engine {word} needs a library for {unit.abi}, which no wheel has")
    program = build_engine_runner(unit.abi)
    installed = _installed_library(package, names)
    if installed and unit.abi == HOST and version in ("", installed[1]):
        yield LibraryPlace(word, program, *installed)
        return
    wanted = f"{package}=={version}" if version else package
    python = own_python() if unit.is_here else UnitPython(own_python().version, GLIBC_OF_FARMRT, machine_of(unit.abi))
    (wheel,) = fetch_wheels([wanted], python)
    with TemporaryDirectory() as scratch, zipfile.ZipFile(wheel) as archive:
        found = _first(archive.namelist(), names)
        if found is None:
            raise DeviceError(f"engine {word}: {wheel.name} has no {' or '.join(names)}")
        library = Path(scratch, PurePosixPath(found).name)
        library.write_bytes(archive.read(found))
        yield LibraryPlace(word, program, library, wheel.name.split("-")[1])


def _installed_library(package: str, names: Sequence[str]) -> tuple[Path, str] | None:
    """The library of a package on this machine, and the package's version."""
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
        found = importlib.metadata.distribution(package)
        name = _first(map(str, found.files or []), names)
        if name:
            return Path(str(found.locate_file(name))), found.version
    return None


def _first(files: Iterable[str], names: Sequence[str]) -> str | None:
    """The first file whose name is one of these, which may have wildcards."""
    return next(
        (file for file in files if any(fnmatch.fnmatch(PurePosixPath(file).name, name) for name in names)), None
    )
