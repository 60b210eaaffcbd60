"""What an engine is: something that runs a model on a unit, beside farmrt.

An adapter is one object, listed in `registry.py` or offered by an installed package as an entry point of the group
`farm.engines`. Most engines come as a package of Python: such an adapter is a `PythonEngine` (python_engine.py) with
two parts: how the engine's form of a model is made, here, and a class that loads and runs it, on the unit.
"""

from __future__ import annotations

import dataclasses
import json
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy.typing as npt

from farm.config.deployment import Runtime
from farm.config.suggestion import suggestion
from farm.farmrt.unit_file_store import UnitFileStore
from farm.rows.run import EngineFigure
from farm.transport.base import Transport
from runtime.errors import ConfigError

Array = npt.NDArray[Any]


@dataclasses.dataclass(frozen=True)
class EngineModel:
    """A model as adapters get it.

    Attributes:
        name: the deployment file's name of it.
        platform: whose form `source` has: onnx, tflite, ...
        source: the file that the user gave.
        onnx: what lies between the deployment file's tensors, as a serialised ONNX model; its inputs and outputs have
            the names, shapes and orders of the deployment file.
        inputs, outputs: their names, in order.
        is_turned: whether an image of the deployment file has another order of axes than `source`.
        folder: where adapters keep what they make of it, for as long as the job runs.
    """

    name: str
    platform: str
    source: Path
    onnx: bytes
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    folder: Path
    is_turned: bool = False
    _lock: threading.RLock = dataclasses.field(default_factory=threading.RLock)  # one form is made of another

    def made(self, name: str, make: Callable[[Path], object]) -> Path:
        """The file of that name in `folder`, made at the first call: `make` writes it whole, or raises."""
        path = self.folder / name
        with self._lock:  # units work in threads of their own
            if not path.exists():
                partial = path.with_name(f"partial-{name}")
                make(partial)
                partial.rename(path)
        return path

    @property
    def onnx_file(self) -> Path:
        """`onnx` as a file."""
        return self.made(f"{self.name}.onnx", lambda path: path.write_bytes(self.onnx))

    @property
    def names_file(self) -> Path:
        """The names of inputs and outputs as a JSON file, for a program that needs them on the unit."""
        names = {"inputs": self.inputs, "outputs": self.outputs}
        return self.made(f"{self.name}.json", lambda path: path.write_text(json.dumps(names)))


@dataclasses.dataclass(frozen=True)
class EngineUnit:
    """A unit whose lease is held, as adapters see it.

    Attributes:
        is_here: whether it is the machine that farm runs on.
        wrap: makes of a command line the one that runs with the unit's fast cores.
        round_limit_s: how long a round may take before the engine counts as hanging.
    """

    name: str
    abi: str
    is_here: bool
    transport: Transport
    store: UnitFileStore
    wrap: Callable[[Sequence[str]], list[str]]
    round_limit_s: float


@dataclasses.dataclass(frozen=True)
class EngineTask:
    """What an engine is to run: rounds of a model, the warm-up before them; `threads` None: as many as it takes."""

    model: EngineModel
    runtime: Runtime
    inputs: Mapping[str, Array]
    rounds: int
    warmup: int
    threads: int | None = None
    options: Mapping[str, str] = dataclasses.field(default_factory=dict)  # of the engine, checked


@dataclasses.dataclass(frozen=True)
class EngineSnapshot:
    """What it takes to run an engine again as it was: its version where that can be had, else its files.

    `files` by role, `engine` and the model in its form among them, libraries beside the engine by their names, which
    have a dot. `arguments` are those of a program.
    """

    version: str
    files: Mapping[str, Path]
    arguments: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class EngineRun:
    """What a fresh process of an engine did.

    `samples_ms` has one time a round, the very first round and the warm-up apart; `hashes` are the SHA-256 of the files
    that it worked with by their role, `engine` and `model` among them; `size_bytes` their size on disk by role.
    `waited_share`: see `Block`. What an engine does not tell is None or empty: without `outputs` nothing is compared,
    without `snapshot` no later night can run it again.
    """

    version: str
    init_ms: float | None
    first_ms: float | None
    samples_ms: tuple[float, ...]
    outputs: Mapping[str, Array]
    peak_bytes: int | None = None
    peak_since: Literal["load", "start"] = "start"
    hashes: Mapping[str, str] = dataclasses.field(default_factory=dict)
    size_bytes: Mapping[str, int] = dataclasses.field(default_factory=dict)
    settings: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    fingerprint: Mapping[str, str] = dataclasses.field(default_factory=dict)
    figures: tuple[EngineFigure, ...] = ()
    waited_share: float | None = None
    snapshot: EngineSnapshot | None = None


class Engine(ABC):
    """An engine.

    Attributes:
        name: its word on the command line.
        runtimes: where it can run models.
        platforms: whose models it takes; empty: all, as ONNX.
        options: its own options, see split_word.
        counts_rounds: whether the limit for a round ends it; else it has one of its own.
    """

    name: str
    runtimes: tuple[Runtime, ...] = ("cpu",)
    platforms: tuple[str, ...] = ()
    options: ClassVar[Choices] = {}
    counts_rounds: ClassVar[bool] = True

    @abstractmethod
    def ready(self, unit: EngineUnit) -> AbstractContextManager[Callable[[EngineTask], EngineRun]]:
        """Brings the engine to a unit, and gives what runs a task in a fresh process there.

        Entering it, or calling what it gives, raises UnsupportedError or a DeviceError of that kind where the engine
        cannot take the model, DeviceError with its last words where it fails, DeadlineError where it hangs.
        """

    def at(self, version: str) -> Engine:
        """The same of one version, called `NAME==VERSION`; ConfigError where none can be had by its version."""
        raise ConfigError(f"engine {self.name} cannot be had by its version; name it without =={version}")

    def again(self, snapshot: EngineSnapshot) -> Engine:
        """The same as it was in an earlier night; ConfigError where that cannot be had."""
        return self.at(snapshot.version)

    def missing(self) -> str:
        """Why it cannot run on this machine, with the command that installs it; empty where it can."""
        return ""


# An engine with options of its own, in one word: `litert:delegate=libqnn.so:delegate.backend=htp`.
#
# Rows, lanes and comparisons call the engine by the whole word, so that one engine with two options is two engines.
Choices = Mapping[str, tuple[str, ...]]  # option -> its values, none: any; `session.` stands for all that begin so


def split_word(word: str) -> tuple[str, dict[str, str]]:
    """The engine's name and its options; ConfigError where one has no value, or is given twice."""
    name, *parts = word.split(":")
    options: dict[str, str] = {}
    for part in parts:
        key, equals, value = part.partition("=")
        if not (key and equals and value):
            raise ConfigError(f"engine {word!r}: {part!r} is no option; write {name}:KEY=VALUE")
        if key in options:
            raise ConfigError(f"engine {word!r}: the option {key} is given twice")
        options[key] = value
    return name, options


def check_options(word: str, options: Mapping[str, str], choices: Choices) -> None:
    """Raises ConfigError for an option that the engine lacks, or a value that it does not take."""
    for key, value in options.items():
        family, dot, rest = key.partition(".")
        known = choices.get(f"{family}." if rest else family + dot * 2)
        if known is None:
            names = tuple(f"{name}NAME" if name.endswith(".") else name for name in choices)
            raise ConfigError(f"engine {word!r} has no option {key}{suggestion(key, names) if names else ''}")
        if known and value not in known:
            raise ConfigError(f"engine {word!r}: {key} is {' or '.join(known)}, not {value}")
