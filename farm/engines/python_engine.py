"""Engines that come as a package of Python: installed on this machine, wheels for their own Python on ARM boards."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import functools
import hashlib
import importlib.metadata
import inspect
import json
import re
import sys
import textwrap
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from farm.config.engine_file import LibrarySection
from farm.engines import unit_program
from farm.engines.base import Choices, Engine, EngineModel, EngineRun, EngineSnapshot, EngineTask, EngineUnit
from farm.engines.c_library import LibraryPlace, package_library, user_library
from farm.engines.elf import wrong_machine
from farm.engines.rounds import RoundsProcess, RoundsRequest
from farm.engines.wheels import PYTHON, ask_python, fetch_wheels, own_python, unpacked_wheels
from farm.transport.file_digest import sha256
from runtime.errors import ConfigError, DeviceError, UnsupportedError

Array = npt.NDArray[Any]

OUTPUT = "engine-output{}.npy"  # on the unit
RUNNER = "runner"  # the option that says what runs the engine: its Python package, or its C library
RUNNERS: Choices = {RUNNER: ("c", "python")}


@dataclasses.dataclass(frozen=True)
class PythonPlace:
    """Where an engine's package is on a unit: the Python that has it, folders to find it in, its hash and size."""

    engine: PythonEngine
    python: str
    packages_at: tuple[str, ...]
    hashes: Mapping[str, str]
    size_bytes: int
    version = ""  # as the package says
    settings: ClassVar[Mapping[str, str]] = {}
    kept: ClassVar[Mapping[str, Path]] = {}  # it is had by its version

    @property
    def package(self) -> str:
        """What has the engine."""
        return self.engine.package

    def files(self, folder: Path) -> list[Path]:
        """What is put on the unit."""
        program = folder / "program.py"
        program.write_text(self.engine.program_text())
        return [program]

    def argv(self, remotes: Sequence[str], request: RoundsRequest) -> list[str]:
        """The command line, where `files` lie at `remotes`."""
        own = {"module": self.engine.module, "package": self.engine.package, "packages_at": self.packages_at}
        return [self.python, "-I", *remotes, json.dumps({**own, **dataclasses.asdict(request)})]


class PythonEngine(Engine):
    """An engine in a package of Python.

    Attributes:
        package: the package's name where it is installed from.
        module: its name in Python.
        needs: what else it takes on a unit that is not this machine.
        converter: the package, if it is another, with the program that makes the engine's form of a model, here.
        file_options: its options that name files, which are sent to the unit where they are on this machine.
        library: names of its C library in the package, if runtime/native/engine runs it; its options have RUNNERS then.
        program: a class that runs on the unit. It is sent there as text, so that its methods import what they need.
            `program(files, threads)` loads a model from the paths of `files`, threads None for the engine's default,
            and takes the engine's options, if they are given, as further keywords. Its attribute `nodes`, if it has
            one, says how many nodes of the model ran where;
            `run(inputs)` takes arrays by name and returns the outputs by name.
    """

    package: str
    module: str
    program: type
    needs: tuple[str, ...] = ("numpy",)
    converter: str = ""
    file_options: tuple[str, ...] = ()
    library: tuple[str, ...] = ()
    libraries: LibrarySection | None = None  # what the user has
    version = ""  # the only one that serves; empty: what is installed here, the newest that a board's Python takes
    kept: Mapping[str, Path] = MappingProxyType({})  # of an earlier night, by role, in place of what there is now

    @abstractmethod
    def files(self, model: EngineModel) -> Mapping[str, Path]:
        """The model in the engine's form, by role; raises UnsupportedError where it cannot be made."""

    def at(self, version: str) -> PythonEngine:
        """See Engine.at."""
        if not re.fullmatch(r"\d[\w.+!]{0,60}", version):
            raise ConfigError(f"{self.name}=={version}: write a version as 1.31.0")
        pinned = copy.copy(self)
        pinned.version, pinned.name = version, f"{self.name}=={version}"
        return pinned

    def again(self, snapshot: EngineSnapshot) -> PythonEngine:
        """See Engine.again."""
        made = copy.copy(self)
        made.kept = snapshot.files
        return made if "engine" in snapshot.files else made.at(snapshot.version)

    def with_libraries(self, libraries: LibrarySection) -> PythonEngine:
        """The same with C libraries of the user's for some ABIs."""
        mine = copy.copy(self)
        mine.libraries = libraries
        return mine

    def missing(self) -> str:
        """See Engine.missing; one that names its version is fetched."""
        return ("" if self.version or self.libraries else self.not_installed()) or self.missing_converter()

    def missing_converter(self) -> str:
        """Why no model can be converted on this machine; empty where one can."""
        return self._not_installed(self.converter, "--no-deps ") if self.converter else ""

    def not_installed(self) -> str:
        """That its package is not installed on this machine, with the command that does it; empty where it is."""
        return self._not_installed(self.package)

    def _not_installed(self, package: str, words: str = "") -> str:
        if _installed(package):
            return ""
        return f"engine {self.name} needs {package}, which is not installed: pip install {words}{package}"

    @contextlib.contextmanager
    def ready(self, unit: EngineUnit) -> Iterator[Callable[[EngineTask], EngineRun]]:
        """See Engine.ready; what a task needs is brought with the first that does."""
        with contextlib.ExitStack() as stack:
            place = functools.cache(lambda runner: stack.enter_context(self._place(unit, runner)))
            yield lambda task: self._run(unit, place(task.options.get(RUNNER, "")), task)

    @contextlib.contextmanager
    def _place(self, unit: EngineUnit, runner: str) -> Iterator[PythonPlace | LibraryPlace]:
        own = self.libraries if runner != "python" and not self.version else None
        if "engine" in self.kept:
            beside = tuple(str(path) for role, path in self.kept.items() if "." in role)
            kept = {"file": str(self.kept["engine"]), "beside": list(beside)}
            own = LibrarySection.model_validate(kept)
        if own is not None and unit.abi in own.file:
            with user_library(unit, self.name, own, self.library) as place:
                yield place
        elif runner == "c" or (not runner and self.library and not self._has_python(unit)):
            with package_library(unit, self.name.partition("==")[0], self.package, self.version, self.library) as place:
                yield place
        elif unit.is_here and self.version in ("", _installed(self.package)):
            yield self._here()
        else:
            python = sys.executable if unit.is_here else PYTHON
            with unpacked_wheels(unit, self._wheels(unit), python) as there:
                yield PythonPlace(self, python, (there.folder,), {"engine": there.sha256}, there.size_bytes)

    def _has_python(self, unit: EngineUnit) -> bool:
        with contextlib.suppress(DeviceError, UnsupportedError):
            return unit.is_here or bool(ask_python(unit, self.name))
        return False

    def _wheels(self, unit: EngineUnit) -> list[Path]:
        wanted = f"{self.package}=={self.version}" if self.version else self.package
        if unit.is_here:  # whose own packages serve, too
            return fetch_wheels([wanted, *(each for each in self.needs if not _installed(each))], own_python())
        return fetch_wheels([wanted, *self.needs], ask_python(unit, self.name))

    def _here(self) -> PythonPlace:
        if text := self.not_installed():
            raise DeviceError(text)
        files = importlib.metadata.distribution(self.package).files or []
        record = "".join(sorted(f"{path} {path.hash and path.hash.value}\n" for path in files))
        size_bytes = sum(path.size or 0 for path in files)
        digest = hashlib.sha256(record.encode()).hexdigest()
        return PythonPlace(self, sys.executable, (), {"engine": digest}, size_bytes)

    def _run(self, unit: EngineUnit, place: PythonPlace | LibraryPlace, task: EngineTask) -> EngineRun:
        files = {role: self.kept.get(role, path) for role, path in self.files(task.model).items()}
        options = {name: value for name, value in task.options.items() if name != RUNNER}
        given = {
            name: self.kept.get(name, Path(value)) for name, value in options.items() if self._is_sent(name, value)
        }
        for path in given.values():
            if text := wrong_machine(path, unit.abi):
                raise UnsupportedError(f"{self.name}: {text}")
        with TemporaryDirectory() as scratch:
            own = place.files(Path(scratch))
            inputs = _written(Path(scratch), task.inputs)
            remotes = unit.store.put([*own, *files.values(), *given.values(), *inputs.values()])
        request = RoundsRequest(
            files={role: remotes[path] for role, path in files.items()},
            threads=task.threads,
            options={**options, **{name: remotes[path] for name, path in given.items()}},
            inputs={name: remotes[path] for name, path in inputs.items()},
            outputs={name: OUTPUT.format(index) for index, name in enumerate(task.model.outputs)},
            rounds=task.rounds,
            warmup=task.warmup,
        )
        argv = place.argv([remotes[path] for path in own], request)
        loaded, done, values = RoundsProcess(self.name, place.package, unit, argv).run(request)
        version = place.version or loaded.version
        return EngineRun(
            version=version,
            init_ms=loaded.init_ms,
            first_ms=done.first_ms,
            samples_ms=tuple(done.samples_ms),
            outputs=values,
            peak_bytes=done.peak_bytes,
            peak_since=done.peak_since,
            hashes={**place.hashes, **{role: sha256(path) for role, path in [*files.items(), *given.items()]}},
            size_bytes={"engine": place.size_bytes, "model": sum(path.stat().st_size for path in files.values())},
            settings={**options, **place.settings} | ({"nodes": loaded.nodes} if loaded.nodes else {}),
            snapshot=EngineSnapshot(version, {**place.kept, **files, **given}),
        )

    def _is_sent(self, option: str, value: str) -> bool:
        """Whether an option names a file of this machine; one that is not here is the unit's own."""
        return option in self.file_options and Path(value).is_file()

    def program_text(self) -> str:
        """What runs on the unit: the rounds, which all engines have in common, and the adapter's class."""
        own = textwrap.dedent(inspect.getsource(self.program))
        return f"{inspect.getsource(unit_program)}\n\n{own}\n\nserve({self.program.__name__})\n"


def _installed(package: str) -> str:
    """The version of a package on this machine; empty: it is not installed."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ""


def _written(folder: Path, inputs: Mapping[str, Array]) -> dict[str, Path]:
    paths = {name: folder / f"input{index}.npy" for index, name in enumerate(inputs)}
    for name, path in paths.items():
        np.save(path, inputs[name], allow_pickle=False)
    return paths
