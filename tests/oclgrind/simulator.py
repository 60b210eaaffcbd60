"""Starts Oclgrind: a process for each kernel, in which a fault of the simulator ends no other test."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.conftest import require

LIBRARY = Path("/usr/lib/oclgrind/liboclgrind-rt-icd.so")
DEADLINE_S = 900
# Not OCLGRIND_UNINITIALIZED: it takes what LLVM's `freeze` makes of an undefined value for undefined.
CHECKS = {"OCLGRIND_DATA_RACES": "1", "OCLGRIND_NUM_THREADS": "1", "OCLGRIND_MAX_ERRORS": "10000"}


def execute(folder: Path, memory: str, kernel: str, *fault: str) -> dict[str, Any]:
    """The report of every launch of a kernel under Oclgrind; see `worker`."""
    require("oclgrind", "" if LIBRARY.exists() else f"no Oclgrind ({LIBRARY}); Debian: apt install oclgrind")
    command = [sys.executable, "-m", "tests.oclgrind.worker", memory, kernel, *fault]
    environment = os.environ | CHECKS
    environment |= {"OCLGRIND_LOG": str(folder / "log"), "OCL_ICD_FILENAMES": str(LIBRARY)}
    result = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=DEADLINE_S, check=False, cwd=Path.cwd()
    )
    assert result.returncode == 0, f"exit status {result.returncode}: {result.stderr[-2000:]}"
    report: dict[str, Any] = json.loads(result.stdout)
    return report
