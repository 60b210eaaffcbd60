"""Prints for which kernels `.ci/run` computes every product of launches, as a value of FARM_EXHAUSTIVE.

    python -m tests.exhaustive TURN

These are a tenth of all, that of the turn, and those whose source changed (tests/turns.py), but for what many kernels
share (preludes, rows of the table).
"""

import sys
from collections.abc import Iterable

from runtime.kernels import table
from runtime.kernels.source import source_files
from runtime.kernels.spec import Kernel
from tests.turns import ROOT, changed_paths, share

FOLDERS = ("runtime/kernels/", "runtime/families/")
KERNELS = {f"{kernel.memory}-{kernel.name}": kernel for kernel in (*table.KERNELS, *table.PROBES)}
TENTHS = 10


def chosen(changed: Iterable[str], turn: int) -> list[str]:
    """The kernels, as `memory-name`, for these changed paths."""
    paths = set(changed)
    return share([*KERNELS], {name for name, kernel in KERNELS.items() if _source(kernel) in paths}, turn, TENTHS)


def _source(kernel: Kernel) -> str:
    return source_files(kernel)[-1].relative_to(ROOT).as_posix()


if __name__ == "__main__":
    print(",".join(chosen(changed_paths(*FOLDERS), int(sys.argv[1]))))
