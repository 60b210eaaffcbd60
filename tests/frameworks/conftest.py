"""The small models of each framework, written once a session; without the framework the tests are skipped."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from runtime.frameworks.process import is_installed
from runtime.host import extras
from tests.conftest import require

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def tensorflow_models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    _require("tensorflow", ("tensorflow", "tf2onnx", "ai-edge-litert"))
    return _written(tmp_path_factory.mktemp("tensorflow"), "tensorflow")


@pytest.fixture(scope="session")
def pytorch_models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    _require("pytorch", ("torch", "onnxscript", "torchao"))
    return _written(tmp_path_factory.mktemp("pytorch"), "torch")


def _require(name: str, packages: Sequence[str]) -> None:
    """Skips, or fails where FARM_REQUIRED lists the name, without the packages."""
    for package in packages:
        require(name, "" if is_installed(package) else f"{package} is not installed: {extras.install_command(package)}")


def _written(folder: Path, framework: str) -> Path:
    command = [sys.executable, "-m", "tests.frameworks.small_models", str(folder), framework]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder
