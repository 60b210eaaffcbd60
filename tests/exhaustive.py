"""Prints for which kernels `.ci/run` computes every product of launches, as a value of FARM_EXHAUSTIVE.

    python -m tests.exhaustive TURN

These are the kernels whose source changed in the last day before the last commit, and a tenth of all, that of the
turn. What many kernels share (preludes, rows of the table) would take all of them: it takes two more tenths instead,
and the turns of the coming days the others.
"""

from __future__ import annotations

import datetime
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from runtime.kernels import table
from runtime.kernels.source import source_files
from runtime.kernels.spec import Kernel

DAYS = 1
ROOT = Path(__file__).parents[1]
FOLDERS = ("runtime/kernels/", "runtime/families/")
SHARED = ("prelude.cl", "functions.cl", "kernels.py")  # what many kernels have in common: preludes, rows of the table
KERNELS = (*table.KERNELS, *table.PROBES)
TENTHS, TENTHS_OF_SHARED = 10, 3


def chosen(changed: Iterable[str], turn: int) -> list[str]:
    """The kernels, as `memory-name`, for these changed paths."""
    paths = set(changed)
    tenths = (
        TENTHS_OF_SHARED if any(path.endswith(SHARED) or path.startswith(FOLDERS[0]) for path in paths - own()) else 1
    )
    wanted = {(turn + each) % TENTHS for each in range(tenths)}
    return [
        f"{kernel.memory}-{kernel.name}"
        for number, kernel in enumerate(KERNELS)
        if number % TENTHS in wanted or _source(kernel) in paths
    ]


def own() -> set[str]:
    """The sources that one kernel or a few have for themselves."""
    return {_source(kernel) for kernel in KERNELS}


def _source(kernel: Kernel) -> str:
    return source_files(kernel)[-1].relative_to(ROOT).as_posix()


def changed_paths() -> set[str]:
    """What changed in the day before the last commit, in the folders of kernels; a file that only moved did not."""
    last = datetime.datetime.fromisoformat(_git("log", "-1", "--format=%cI").strip())
    since = last - datetime.timedelta(days=DAYS)
    told = _git("log", f"--since={since.isoformat()}", "-M", "--format=", "--name-status", "--", *FOLDERS)
    lines = (line.split("\t") for line in told.splitlines())
    return {path for status, *_, path in lines if status not in ("R100", "D")}


def _git(*words: str) -> str:
    return subprocess.run(["git", *words], capture_output=True, text=True, check=True).stdout


if __name__ == "__main__":
    print(",".join(chosen(changed_paths(), int(sys.argv[1]))))
