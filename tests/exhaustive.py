"""Prints for which kernels `.ci/run` computes every product of launches, as a value of FARM_EXHAUSTIVE.

    python -m tests.exhaustive TURN

These are the kernels whose source changed in the last day before the last commit, and a tenth of all, that of the
turn; at most a fifth of all, since a run must end in time: the turns of the coming days take the others. So they do
where what many kernels share has changed (preludes, rows of the table).
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
KERNELS = (*table.KERNELS, *table.PROBES)
TENTHS = 10
MOST = -(-len(KERNELS) // 5)


def chosen(changed: Iterable[str], turn: int) -> list[str]:
    """The kernels, as `memory-name`, for these changed paths."""
    paths = set(changed)
    of_turn = [kernel for number, kernel in enumerate(KERNELS) if number % TENTHS == turn % TENTHS]
    of_change = [kernel for kernel in KERNELS if _source(kernel) in paths and kernel not in of_turn]
    first = turn % max(1, len(of_change))
    wanted = [*of_turn, *of_change[first:], *of_change[:first]][:MOST]
    return [f"{kernel.memory}-{kernel.name}" for kernel in KERNELS if kernel in wanted]


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
