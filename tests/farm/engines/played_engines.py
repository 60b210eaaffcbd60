"""Engines that play every way to go wrong, in the Python that runs the tests; offered as entry points."""

from collections.abc import Iterator, Mapping
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest

from farm.engines import registry
from farm.engines.base import EngineModel
from farm.engines.python_engine import PythonEngine


class PlayedEngine(PythonEngine):
    """Its package is NumPy, which is always there; its model is the ONNX file."""

    package = module = "numpy"

    def __init__(self, name: str, program: type) -> None:
        self.name, self.program = name, program

    def files(self, model: EngineModel) -> Mapping[str, Path]:
        return {"model": model.onnx_file}


class Wrong:
    """Answers with zeros."""

    def __init__(self, files: Mapping[str, str], threads: int | None) -> None:
        print("words that nobody asked for")

    def run(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        import numpy as np

        return {"y": np.zeros((1, 5), np.float32)}


class Misshapen:
    """Answers with an array of another shape."""

    def __init__(self, files: Mapping[str, str], threads: int | None) -> None:
        pass

    def run(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        import numpy as np

        return {"y": np.zeros((5,), np.float32)}


class Refuses:
    """Does not know an operator."""

    def __init__(self, files: Mapping[str, str], threads: int | None) -> None:
        raise NotImplementedError("no kernel for Erf")


class Crashes:
    """Dies in a round."""

    def __init__(self, files: Mapping[str, str], threads: int | None) -> None:
        pass

    def run(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        import os
        import sys

        print("last words", file=sys.stderr, flush=True)
        os.abort()


class Hangs:
    """Never ends a round, and has a child that writes its number down and sleeps on."""

    def __init__(self, files: Mapping[str, str], threads: int | None) -> None:
        import subprocess

        child = subprocess.Popen(["sleep", "600"])
        with open("child", "w") as file:  # noqa: PTH123
            file.write(str(child.pid))

    def run(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        import time

        time.sleep(600)
        return {}


class Babbles(PlayedEngine):
    """Prints what is no answer."""

    def program_text(self) -> str:
        return "print('42 ms, thank you')"


WRONG = PlayedEngine("wrong", Wrong)
MISSHAPEN = PlayedEngine("misshapen", Misshapen)
REFUSES = PlayedEngine("refuses", Refuses)
CRASHES = PlayedEngine("crashes", Crashes)
HANGS = PlayedEngine("hangs", Hangs)
BABBLES = Babbles("babbles", Wrong)
ABSENT = PlayedEngine("absent", Wrong)
ABSENT.package = ABSENT.module = "no_such_engine"
BAD = "no engine at all"


def offer(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    """Lets an installed package offer some of these for the rest of a test."""
    points = [EntryPoint(name, f"{__name__}:{name}", registry.GROUP) for name in names]
    monkeypatch.setattr(registry, "entry_points", lambda group: points)
    registry.adapters.cache_clear()


@pytest.fixture
def offered(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """All of these are installed."""
    offer(monkeypatch, "WRONG", "MISSHAPEN", "REFUSES", "CRASHES", "HANGS", "BABBLES", "ABSENT")
    yield
    registry.adapters.cache_clear()
