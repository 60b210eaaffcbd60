"""Programs that a user names in engines.yml: sent to the unit, run to their end, and read for figures."""

from __future__ import annotations

import contextlib
import json
import math
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from farm import safe_text
from farm.config.engine_file import DEFAULT_FILE, EngineSection, FigureSection
from farm.engines.base import Engine, EngineRun, EngineSnapshot, EngineTask, EngineUnit
from farm.engines.elf import wrong_machine
from farm.engines.user_file import check_hash
from farm.rows.run import EngineFigure
from farm.transport.base import NOT_FOUND, CompletedProgram
from farm.transport.file_digest import sha256
from farm.transport.program import describe_status
from runtime.errors import DeadlineError, DeviceError, UnsupportedError

OWN = ("latency_ms", "init_ms", "first_ms")  # are the row's own figures
LAST_WORDS = 300


class CommandEngine(Engine):
    """A program of engines.yml; it says nothing of outputs, so that these are not compared."""

    counts_rounds = False

    def __init__(self, name: str, section: EngineSection) -> None:
        self.name, self._section = name, section
        self.runtimes = ("cpu", "gpu")  # what it runs on is its own affair
        self._kept: Mapping[str, Path] = {}  # of an earlier night, in place of what there is now

    def again(self, snapshot: EngineSnapshot) -> CommandEngine:
        """See Engine.again."""
        section = self._section.model_copy(update={"arguments": snapshot.arguments, "sha256": {}})
        made = CommandEngine(self.name, section)
        made._kept = snapshot.files
        return made

    @contextlib.contextmanager
    def ready(self, unit: EngineUnit) -> Iterator[Callable[[EngineTask], EngineRun]]:
        """See Engine.ready."""
        program = self._section.program.get(unit.abi)  # type: ignore[call-overload]
        if program is None:
            raise UnsupportedError(f"engine {self.name}: {DEFAULT_FILE} names no program for {unit.abi}")
        yield lambda task: self._run(unit, program, task)

    def _run(self, unit: EngineUnit, program: str, task: EngineTask) -> EngineRun:
        sent = self._files(task)
        if is_sent := "/" in program:
            sent["engine"] = self._checked_program(unit, self._kept.get("engine", Path(program)))
        remotes = {name: unit.store.put([path])[path] for name, path in sent.items()}
        given = {"rounds": task.rounds, "warmup": task.warmup, "threads": task.threads or "", **remotes}
        argv = [remotes.get("engine", program), *(word.format(**given) for word in self._section.arguments)]
        done, wall_ms = self._done(unit, argv)
        found = self._figures(done.stdout.decode(errors="replace"))
        own = {name: found[name].samples for name in OWN if name in found}
        return EngineRun(
            version="",
            init_ms=own.get("init_ms", (None,))[0],
            first_ms=own.get("first_ms", (None,))[0],
            samples_ms=own.get("latency_ms", ()),
            outputs={},
            hashes={name: sha256(path) for name, path in sent.items()},
            size_bytes={name: path.stat().st_size for name, path in sent.items()},
            settings={"argv": [program, *argv[1:]], "wall_ms": round(wall_ms, 3)},
            figures=tuple(figure for name, figure in found.items() if name not in OWN),
            snapshot=EngineSnapshot("", sent, self._section.arguments) if is_sent else None,
        )

    def _files(self, task: EngineTask) -> dict[str, Path]:
        """What is sent beside the program, by the names that arguments have for it."""
        sent = {name: Path(path) for name, path in self._section.files.items()}
        words = " ".join(self._section.arguments)
        sent |= {"onnx": task.model.onnx_file} if "{onnx}" in words else {}
        sent |= {"source": task.model.source} if "{source}" in words else {}
        sent |= {name: path for name, path in self._kept.items() if name != "engine"}
        for name, path in sent.items():
            if not path.is_file():
                raise DeviceError(f"engine {self.name}: {path}: no such file, which {DEFAULT_FILE} names as {name}")
        return sent

    def _checked_program(self, unit: EngineUnit, path: Path) -> Path:
        check_hash(self.name, path, self._section.sha256.get(unit.abi))  # type: ignore[call-overload]
        if not path.stat().st_mode & 0o100:
            raise DeviceError(f"engine {self.name}: {path} is not executable: chmod +x {path}")
        if text := wrong_machine(path, unit.abi):
            raise UnsupportedError(f"engine {self.name}: {text}")
        return path

    def _done(self, unit: EngineUnit, argv: list[str]) -> tuple[CompletedProgram, float]:
        limit_s, begin = self._section.time_limit, time.monotonic()
        try:
            done = unit.transport.run(unit.wrap(argv), limit_s)
        except DeadlineError:
            text = f"engine {self.name}: did not end within {limit_s:g} s; time_limit of {DEFAULT_FILE} sets another"
            raise DeadlineError(text) from None
        if done.exit_status:
            words = safe_text.one_line(done.stderr.decode(errors="replace").strip()[-LAST_WORDS:]) or "no words"
            missing = f"; is it on {unit.name}?" if done.exit_status == NOT_FOUND else ""
            raise DeviceError(f"engine {self.name}: ended with {describe_status(done.exit_status)}: {words}{missing}")
        return done, (time.monotonic() - begin) * 1e3

    def _figures(self, output: str) -> dict[str, EngineFigure]:
        figures = {}
        for name, section in self._section.figures.items():
            samples = tuple(_samples(section, output))
            if not samples:
                where = f"the pattern {section.pattern!r}" if section.pattern else f"the path {section.json_path!r}"
                shown = safe_text.word(output[-LAST_WORDS:], LAST_WORDS) or "nothing"
                raise DeviceError(
                    f"engine {self.name}: {where} of {name} finds no number in what it printed: {shown}", "bad_answer"
                )
            figures[name] = EngineFigure.of(name, section.unit, section.better, samples)
        return figures


def _samples(section: FigureSection, output: str) -> Iterator[float]:
    """The numbers of a figure in a program's output."""
    found: Iterable[Any] = ()
    if section.pattern:
        found = (match[1] for match in re.finditer(section.pattern, output, re.MULTILINE))
    else:
        with contextlib.suppress(ValueError, RecursionError):
            found = _at(json.loads(output), (section.json_path or "").split("."))
    for value in found:
        with contextlib.suppress(ValueError, TypeError):
            if not isinstance(value, bool) and math.isfinite(number := float(value)):
                yield number * section.scale


def _at(value: Any, path: list[str]) -> Iterator[Any]:
    """What lies at a path of keys, indices and `*`."""
    if not path:
        yield value
        return
    key, *rest = path
    items = dict(enumerate(value)) if isinstance(value, list) else value if isinstance(value, dict) else {}
    for name, item in items.items():
        if key in (str(name), "*"):
            yield from _at(item, rest)
