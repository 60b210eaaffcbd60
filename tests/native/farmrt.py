"""A farmrt process for tests: commands in, answers out."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import pytest

from farm.farmrt.session import encode_command
from farm.toolchain import environment
from runtime.plan.plan_data import PlanData
from tests.native.plans import Floats, PlanBuilder


class Farmrt:
    """`farmrt serve` with a folder for its files."""

    def __init__(
        self, program: Path | list[str], folder: Path, library: str = "", variables: Mapping[str, str] | None = None
    ) -> None:
        self.folder = folder
        self.library = library
        self.progress_lines = 0
        self.process = subprocess.Popen(
            [*([program] if isinstance(program, Path) else program), "serve"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment() | dict(variables or {}),
        )

    def __enter__(self) -> Farmrt:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        assert self.process.stdin and self.process.stdout and self.process.stderr
        self.process.stdin.close()
        self.process.wait(30)
        self.process.stdout.close()
        self.process.stderr.close()

    def line(self, text: str) -> dict[str, Any]:
        """The answer to a raw line."""
        assert self.process.stdin and self.process.stdout
        self.process.stdin.write(text + "\n")
        self.process.stdin.flush()
        while (text := self.process.stdout.readline()) == "progress\n":
            self.progress_lines += 1
        answer: dict[str, Any] = json.loads(text)
        return answer

    def ask(self, command: str, **values: object) -> dict[str, Any]:
        """The answer to a command, whatever it is."""
        return self.line(encode_command(command, values))

    def done(self, command: str, **values: object) -> dict[str, Any]:
        """The answer to a command that succeeds."""
        answer = self.ask(command, **values)
        assert answer["ok"], answer
        return answer

    def load(self, plan: PlanBuilder, **options: object) -> dict[str, Any]:
        """The answer to a load of this plan."""
        plan_bytes, data = plan.files()
        return self.load_files(plan_bytes, data, **options)

    def load_files(self, plan: bytes, data: PlanData, **options: object) -> dict[str, Any]:
        """The answer to a load of these files."""
        (self.folder / "plan").write_bytes(plan)
        (self.folder / "data").write_bytes(bytes(data))
        where = {"opencl": self.library} if self.library else {}
        return self.ask("load", plan=self.folder / "plan", data=self.folder / "data", **where, **options)

    def run_loaded(self, answer: dict[str, Any], inputs: Mapping[str, Floats], rounds: int = 1) -> None:
        """Runs what was loaded with this answer; skips the test where this CPU lacks the instruction set."""
        if answer.get("error") == "unsupported" and "instruction set" in answer["message"]:
            pytest.skip(answer["message"])
        assert answer["ok"], answer
        for name, values in inputs.items():
            self.input(name, values, np.float32 if values.dtype.kind == "f" else values.dtype.type)
        self.done("run", rounds=rounds)

    def input(self, name: str, values: Floats, element: type[np.generic] = np.float32) -> None:
        """Sets an input of this element type."""
        path = self.folder / "input"
        path.write_bytes(values.astype(element).tobytes())
        self.done("input", name=name, file=path)

    def output(self, name: str) -> Floats:
        """An output's elements."""
        path = self.folder / "output"
        self.done("output", name=name, file=path)
        return np.frombuffer(path.read_bytes(), np.float32)
