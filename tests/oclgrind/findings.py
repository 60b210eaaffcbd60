"""Reads what Oclgrind writes into its log: a block of lines for each finding."""

from __future__ import annotations

import re

from runtime.kernels import functions_source
from runtime.kernels.source import source_files
from runtime.kernels.spec import Kernel

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
