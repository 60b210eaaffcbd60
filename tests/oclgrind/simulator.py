"""Starts Oclgrind: a process for each kernel, in which a fault of the simulator ends no other test."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from runtime.kernels import functions_source
from runtime.kernels.source import source_files
from runtime.kernels.spec import Kernel
from tests.conftest import require

LIBRARY = Path("/usr/lib/oclgrind/liboclgrind-rt-icd.so")
DEADLINE_S = 900
# Not OCLGRIND_UNINITIALIZED: it takes what LLVM's `freeze` makes of an undefined value for undefined.
CHECKS = {"OCLGRIND_DATA_RACES": "1", "OCLGRIND_NUM_THREADS": "1", "OCLGRIND_MAX_ERRORS": "10000"}


def execute(folder: Path, memory: str, kernel: str, *fault: str, part: int = 0, parts: int = 1) -> dict[str, Any]:
    """The report of every launch of a kernel under Oclgrind, or of a part of them; see `worker`."""
    require("oclgrind", "" if LIBRARY.exists() else f"no Oclgrind ({LIBRARY}); Debian: apt install oclgrind")
    command = [sys.executable, "-m", "tests.oclgrind.worker", memory, kernel, str(part), str(parts), *fault]
    environment = os.environ | CHECKS
    environment |= {"OCLGRIND_LOG": str(folder / "log"), "OCL_ICD_FILENAMES": str(LIBRARY)}
    result = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=DEADLINE_S, check=False, cwd=Path.cwd()
    )
    assert result.returncode == 0, f"exit status {result.returncode}: {result.stderr[-2000:]}"
    report: dict[str, Any] = json.loads(result.stdout)
    return report


_LINE = re.compile(r"At line (\d+) ")
_HEADING = re.compile(r"^(?=\S)", re.MULTILINE)  # a finding starts in the first column, all else of it is indented


def findings(log: str, kernel: Kernel) -> list[str]:
    """The distinct findings of a log, each as what was found and the lines of source where, in order."""
    blocks = (block for block in _HEADING.split(log) if block.strip())
    return list(dict.fromkeys(_finding(block, kernel) for block in blocks))


def _finding(block: str, kernel: Kernel) -> str:
    what = re.sub(r" at (\w+) memory address \w+", r" in \1 memory", block.partition("\n")[0]).strip()
    return "; ".join([what, *(place(kernel, int(line)) for line in _LINE.findall(block))])


def place(kernel: Kernel, line: int) -> str:
    """File, line and text of a line of a kernel's program, which is these joined by newlines."""
    files = ((f"{path.parent.name}/{path.name}", path.read_text()) for path in source_files(kernel))
    for name, text in ((functions_source.NAME, functions_source.opencl()), *files):
        lines = text.split("\n")
        if line <= len(lines):
            return f"{name}:{line}: {lines[line - 1].strip()}"
        line -= len(lines)
    return f"line {line}"
