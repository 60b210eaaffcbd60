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

from runtime.kernels import table
from runtime.kernels.spec import Kernel

DAYS = 1
FOLDER = "runtime/kernels/"
KERNELS = (*table.KERNELS, *table.PROBES)
TENTHS, TENTHS_OF_SHARED = 10, 3


def chosen(changed: Iterable[str], turn: int) -> list[str]:
    """The kernels, as `memory-name`, for these changed paths."""
    paths = {path for path in changed if path.startswith(FOLDER)}
    own = {_source(kernel) for kernel in KERNELS}
    tenths = TENTHS_OF_SHARED if paths - own else 1
    wanted = {(turn + each) % TENTHS for each in range(tenths)}
    return [
        f"{kernel.memory}-{kernel.name}"
        for number, kernel in enumerate(KERNELS)
        if number % TENTHS in wanted or _source(kernel) in paths
    ]


def _source(kernel: Kernel) -> str:
    return f"{FOLDER}{kernel.memory}/{kernel.source}"


def changed_paths() -> set[str]:
    """What changed in the day before the last commit, and lies in the folder of kernels."""
    last = datetime.datetime.fromisoformat(_git("log", "-1", "--format=%cI").strip())
    since = last - datetime.timedelta(days=DAYS)
    told = _git("log", f"--since={since.isoformat()}", "--format=", "--name-only", "--", FOLDER)
    return set(told.split())


def _git(*words: str) -> str:
    return subprocess.run(["git", *words], capture_output=True, text=True, check=True).stdout


if __name__ == "__main__":
    print(",".join(chosen(changed_paths(), int(sys.argv[1]))))
