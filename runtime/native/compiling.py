"""Runs compilers, several at a time, and turns their failures into errors that show the log."""

import contextlib
import dataclasses
import os
import subprocess
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from runtime.errors import BuildError

_LOG_LINES = 30


@dataclasses.dataclass(frozen=True)
class TranslationUnit:
    """A file to compile with its own flags; a suffix tells objects apart where it is compiled several times."""

    source: Path
    suffix: str = ""
    flags: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Name of the object file, without `.o`."""
        return f"{self.source.stem}_{self.suffix}" if self.suffix else self.source.stem


Compiled = Callable[[int, int], None]  # told of each unit: how many are compiled, and of how many


def untold(done: int, units: int) -> None:
    """Tells nobody how many units are compiled."""


def compile_translation_units(
    compiler: Sequence[str],
    flags: Sequence[str],
    units: Sequence[TranslationUnit],
    folder: Path,
    compiled: Compiled = untold,
) -> list[Path]:
    """Compiles units to objects in a folder, as many at a time as there are CPUs; raises BuildError."""
    objects = [folder / f"{unit.name}.o" for unit in units]
    commands = [
        [*compiler, *flags, *unit.flags, "-c", str(unit.source), "-o", str(object_file)]
        for unit, object_file in zip(units, objects, strict=True)
    ]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for done, _ in enumerate(pool.map(run_compiler, commands), 1):
            compiled(done, len(commands))
    return objects


@contextlib.contextmanager
def writable_folder(folder: Path) -> Iterator[None]:
    """Makes a folder for the files that a `with` block writes; raises BuildError where the system refuses to."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        yield
    except OSError as error:
        raise BuildError(f"{error.filename or folder}: cannot be written: {error.strerror or error}") from None


def run_compiler(command: Sequence[str]) -> None:
    """Runs a program to its end; raises BuildError with its output where it fails."""
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        )
    except OSError as error:
        raise BuildError(f"{command[0]} cannot be started: {error.strerror}") from None
    if done.returncode:
        shown = "\n".join(done.stdout.strip().splitlines()[:_LOG_LINES])
        raise BuildError(f"{' '.join(command[:4])} ... failed with exit status {done.returncode}:\n{shown}")
