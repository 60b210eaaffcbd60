"""A new operator with a kernel is five files, and nothing else changes: it is read, lowered, launched and measured."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FAMILY = Path(__file__).parent / "example_family"
MOST_FILES = 5


def contents(folder: Path) -> dict[str, bytes]:
    paths = (path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


def test_an_operator_is_five_files() -> None:
    """`__init__.py` is there already where the family is."""
    assert len(set(contents(FAMILY)) - {"__init__.py"}) == MOST_FILES


@pytest.mark.opencl
@pytest.mark.slow
def test_they_are_enough(tmp_path: Path) -> None:
    runtime = tmp_path / "runtime"
    shutil.copytree(ROOT / "runtime", runtime, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(FAMILY, runtime / "families" / "cube", ignore=shutil.ignore_patterns("__pycache__", "cases.py"))
    before = contents(runtime)
    environment = os.environ | {"PYTHONPATH": str(ROOT)}  # behind the working folder
    command = [sys.executable, "-m", "tests.native.new_operator"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert not done.returncode, done.stderr
    assert contents(runtime) == before
