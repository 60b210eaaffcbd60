"""Engines that come as a package of Python: installed on this machine, wheels for their own Python on ARM boards."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import hashlib
import importlib.metadata
import inspect
import json
import re
import sys
import textwrap
from abc import abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any, Literal

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from farm import safe_text
from farm.engines import unit_program
from farm.engines.base import Engine, EngineModel, EngineRun, EngineTask, EngineUnit
from farm.engines.elf import wrong_machine
from farm.engines.wheels import PYTHON, ask_python, fetch_wheels, own_python, unpacked_wheels
from farm.transport.base import Process
from farm.transport.file_digest import sha256
from runtime.errors import (
    ConfigError,
    DeadlineError,
    DeviceError,
    JobError,
    ProcessEndedError,
    ProcessKilledError,
    UnsupportedError,
)

Array = npt.NDArray[Any]

LOAD_S = 900.0
START_S = 120.0  # for an import of large libraries from a cold disk
REMOVE_S = 30.0
SHOWN_CHARACTERS = 200
LOG_LINES, LOG_CHARACTERS = 5, 300
OUTPUT = "engine-output{}.npy"  # on the unit

Duration = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class _EngineAnswer(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


class _Refused(_EngineAnswer):
    stage: Literal["import", "load", "run"]
    error: Annotated[str, Field(max_length=4096)]


class _Loaded(_EngineAnswer):
    version: Annotated[str, Field(max_length=100)]
    init_ms: Duration
    nodes: Annotated[dict[str, Annotated[int, Field(ge=0)]], Field(max_length=100)] = {}


class _Done(_EngineAnswer):
    first_ms: Duration
    samples_ms: Annotated[list[Duration], Field(max_length=1_000_000)]
    peak_bytes: Annotated[int, Field(ge=0)] | None
    peak_since: Literal["load", "start"]


_ANSWER: TypeAdapter[_Refused | _Loaded | _Done] = TypeAdapter(_Refused | _Loaded | _Done)


@dataclasses.dataclass(frozen=True)
class PythonPlace:
    """Where an engine's package is on a unit: the Python that has it, folders to find it in, its hash and size."""

    python: str
    packages_at: tuple[str, ...]
    sha256: str
    size_bytes: int


class PythonEngine(Engine):
    """An engine in a package of Python.

    Attributes:
        package: the package's name where it is installed from.
        module: its name in Python.
        needs: what else it takes on a unit that is not this machine.
        converter: the package, if it is another, with the program that makes the engine's form of a model, here.
        file_options: its options that name files, which are sent to the unit where they are on this machine.
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
    version = ""  # the only one that serves; empty: what is installed here, the newest that a board's Python takes

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

    def missing(self) -> str:
        """See Engine.missing; one that names its version is fetched."""
        return ("" if self.version else self.not_installed()) or self.missing_converter()

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
        """See Engine.ready."""
        if unit.is_here and self.version in ("", _installed(self.package)):
            place = self._here()
            yield lambda task: self._run(unit, place, task)
            return
        python = sys.executable if unit.is_here else PYTHON
        with unpacked_wheels(unit, self._wheels(unit), python) as there:
            place = PythonPlace(python, (there.folder,), there.sha256, there.size_bytes)
            yield lambda task: self._run(unit, place, task)

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
        return PythonPlace(sys.executable, (), hashlib.sha256(record.encode()).hexdigest(), size_bytes)

    def _run(self, unit: EngineUnit, place: PythonPlace, task: EngineTask) -> EngineRun:
        files = self.files(task.model)
        given = {name: Path(value) for name, value in task.options.items() if self._is_sent(name, value)}
        for path in given.values():
            if text := wrong_machine(path, unit.abi):
                raise UnsupportedError(f"{self.name}: {text}")
        outputs = {name: OUTPUT.format(index) for index, name in enumerate(task.model.outputs)}
        with TemporaryDirectory() as scratch:
            program = Path(scratch, "program.py")
            program.write_text(self.program_text())
            inputs = _written(Path(scratch), task.inputs)
            remotes = unit.store.put([program, *files.values(), *given.values(), *inputs.values()])
        request = {
            "module": self.module,
            "package": self.package,
            "packages_at": place.packages_at,
            "files": {role: remotes[path] for role, path in files.items()},
            "threads": task.threads,
            "options": {**task.options, **{name: remotes[path] for name, path in given.items()}},
            "inputs": {name: remotes[path] for name, path in inputs.items()},
            "outputs": outputs,
            "rounds": task.rounds,
            "warmup": task.warmup,
        }
        process = unit.transport.start(
            unit.wrap([place.python, "-I", remotes[program], json.dumps(request)]), self.name
        )
        log: deque[str] = deque(maxlen=LOG_LINES)
        process.listen(log.append)
        try:
            loaded, done = self._answers(unit, process, task)
            values = self._fetched(unit, outputs)
        except (DeviceError, DeadlineError) as error:
            process.close()  # which reads what is left of its log
            _add_log(error, log)
            raise
        finally:
            process.close()
            unit.transport.run(["rm", "-f", "--", *outputs.values()], REMOVE_S)
        if len(done.samples_ms) != task.rounds:
            raise DeviceError(f"{self.name}: ran {len(done.samples_ms)} rounds, not {task.rounds}", "bad_answer")
        return EngineRun(
            version=loaded.version,
            init_ms=loaded.init_ms,
            first_ms=done.first_ms,
            samples_ms=tuple(done.samples_ms),
            outputs=values,
            peak_bytes=done.peak_bytes,
            peak_since=done.peak_since,
            hashes={"engine": place.sha256, **{role: sha256(path) for role, path in [*files.items(), *given.items()]}},
            size_bytes={"engine": place.size_bytes, "model": sum(path.stat().st_size for path in files.values())},
            settings=dict(task.options) | ({"nodes": loaded.nodes} if loaded.nodes else {}),
        )

    def _is_sent(self, option: str, value: str) -> bool:
        """Whether an option names a file of this machine; one that is not here is the unit's own."""
        return option in self.file_options and Path(value).is_file()

    def program_text(self) -> str:
        """What runs on the unit: the rounds, which all engines have in common, and the adapter's class."""
        own = textwrap.dedent(inspect.getsource(self.program))
        return f"{inspect.getsource(unit_program)}\n\n{own}\n\nserve({self.program.__name__})\n"

    def _answers(self, unit: EngineUnit, process: Process, task: EngineTask) -> tuple[_Loaded, _Done]:
        loaded = self._answer(process, START_S + LOAD_S, "load the model")
        done = self._answer(process, unit.round_limit_s, "run a round")
        if not isinstance(loaded, _Loaded) or not isinstance(done, _Done):
            raise DeviceError(f"{self.name}: answered in another order than it should", "bad_answer")
        return loaded, done

    def _answer(self, process: Process, deadline_s: float, what: str) -> _Refused | _Loaded | _Done:
        """The next answer; a line that tells of progress lets the deadline begin anew."""
        try:
            while (line := process.read_line(deadline_s)) == "progress":
                pass
            answer = _ANSWER.validate_json(line)
        except DeadlineError:
            raise DeadlineError(f"{self.name}: did not {what} within {deadline_s:g} s") from None
        except ProcessKilledError:
            raise
        except ProcessEndedError as error:
            raise DeviceError(f"{error}") from None  # the unit is there: it is the engine that failed
        except ValidationError:
            shown = safe_text.word(line, SHOWN_CHARACTERS)
            raise DeviceError(f"{self.name}: printed what is no answer: {shown}", "bad_answer") from None
        if isinstance(answer, _Refused):
            raise self._refusal(answer)
        return answer

    def _refusal(self, refused: _Refused) -> DeviceError:
        text = safe_text.one_line(refused.error)
        if refused.stage == "import":
            return DeviceError(f"{self.name}: {self.package} cannot be used there: {text}")
        if refused.stage == "load":
            return DeviceError(f"{self.name} refuses the model: {text}", "unsupported")
        return DeviceError(f"{self.name} fails in a round: {text}")

    def _fetched(self, unit: EngineUnit, outputs: Mapping[str, str]) -> dict[str, Array]:
        values = {}
        with TemporaryDirectory() as folder:
            for name, remote in outputs.items():
                local = Path(folder, remote)
                unit.transport.pull(remote, local)
                try:
                    values[name] = np.load(local, allow_pickle=False)
                except (ValueError, EOFError):
                    raise DeviceError(f"{self.name}: wrote no array for output {name}", "bad_answer") from None
        return values


def _add_log(error: JobError, log: Iterable[str]) -> None:
    """Adds the last lines that an engine wrote to an error that does not have them."""
    words = safe_text.one_line(" ".join(" ".join(log).split()))[-LOG_CHARACTERS:]
    if words and words not in str(error):
        error.args = (f"{error}; its log ends: {words}",)


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
