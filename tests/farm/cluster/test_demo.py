"""`make cluster-demo`: the transcript of two hosts, one of which is killed."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]

pytestmark = pytest.mark.slow


def test_the_demo_of_two_hosts(tmp_path: Path) -> None:
    command = [sys.executable, str(ROOT / "examples/cluster_demo.py")]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=tmp_path, env=environment, text=True, capture_output=True, timeout=600)
    assert done.returncode == 0, done.stderr
    _, _, after = done.stdout.partition("$ kill -9 ")
    killed = "mi8" if "of alpha" in after.splitlines()[0] else "oneplus6"
    (row,) = [line for line in after.splitlines() if line.startswith("small runs on ")][:1]
    other = {"mi8": "oneplus6", "oneplus6": "mi8"}[killed]
    assert killed not in row and row.startswith(f"small runs on {other} ") and "sdm845" in row
