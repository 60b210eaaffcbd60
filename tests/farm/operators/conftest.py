"""The example of docs/custom-operators.md in a folder of its own, and the working folder there."""

import runpy
import shutil
from pathlib import Path

import pytest

from tests import opencl

EXAMPLE = Path(__file__).parents[3] / "examples" / "custom_operators"
FORMS = Path(__file__).parent / "data"


@pytest.fixture
def example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The example's files, its model made; skipped where no OpenCL driver works."""
    opencl.default_device()
    folder = tmp_path / "example"
    shutil.copytree(EXAMPLE, folder, ignore=shutil.ignore_patterns("__pycache__", "*.onnx"))
    runpy.run_path(str(folder / "make_model.py"), run_name="__main__")
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def forms(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Operators that use every form of argument."""
    opencl.default_device()
    folder = tmp_path / "forms"
    shutil.copytree(FORMS, folder)
    monkeypatch.chdir(folder)
    return folder


def replace(file: Path, old: str, new: str) -> None:
    """Edits a file; the old text must be there once."""
    text = file.read_text()
    assert text.count(old) == 1, f"{old!r} stands {text.count(old)} times in {file}"
    file.write_text(text.replace(old, new))
