"""Draws many models and tells which are wrong, and what kills farm: python -m tests.random_models FIRST COUNT [STRIDE].

A seed that dies or takes longer than ten minutes is told; the next one has a new farmrt. Exit status 1 if one is wrong.
"""

import collections
import contextlib
import itertools
import signal
import sys
import tempfile
import traceback
from collections.abc import Iterator
from pathlib import Path

from runtime.native.build import build_farmrt
from runtime.reference.device import target_of_device
from tests import opencl
from tests.native.farmrt import Farmrt
from tests.random_models.judge import Judge, draw

LIMIT_S = 600
MEMORIES = ("buffer", "image")


@contextlib.contextmanager
def judge(folder: Path) -> Iterator[Judge]:
    """A judge on the best OpenCL driver, with files below the folder."""
    driver, program = opencl.WORKING[0], build_farmrt()
    targets = {
        memory: target_of_device(opencl.open_once(driver.path), memory=memory, allow_cpu=True) for memory in MEMORIES
    }
    for name in ("cpu", "gpu"):
        (folder / name).mkdir(exist_ok=True)
    none = {"FARM_OPENCL": "/nonexistent/libOpenCL.so"}
    with (
        Farmrt(program, folder / "cpu", variables=none) as cpu,
        Farmrt(program, folder / "gpu", library=str(driver.path)) as gpu,
    ):
        yield Judge(cpu, gpu, targets)


def _late(*_: object) -> None:
    raise TimeoutError(f"longer than {LIMIT_S} s")


def verdicts(seeds: Iterator[int], folder: Path) -> Iterator[tuple[int, str, str]]:
    """(seed, its operators, verdict) of each; a new judge after one that died."""
    signal.signal(signal.SIGALRM, _late)
    for seed in seeds:
        with judge(folder) as judging:
            for each in itertools.chain([seed], seeds):
                steps = ""
                signal.alarm(LIMIT_S)
                try:
                    drawn = draw(each)
                    steps = f"{drawn.kind}: {drawn.steps}"
                    yield each, steps, judging.verdict(drawn)
                except Exception:  # whatever kills farm is a finding
                    yield each, steps, f"dead: {traceback.format_exc(limit=-2)}"
                    break
                finally:
                    signal.alarm(0)


def main(first: int, count: int, stride: int = 1) -> int:
    """Prints what is not right, and how many of each verdict."""
    found: collections.Counter[str] = collections.Counter()
    with tempfile.TemporaryDirectory() as folder:
        for seed, steps, verdict in verdicts(iter(range(first, first + count * stride, stride)), Path(folder)):
            found[verdict.partition(":")[0]] += 1
            if verdict != "right":
                print(f"{seed} ({steps}) {verdict}", flush=True)
    print(dict(found))
    return 1 if found["wrong"] + found["dead"] else 0


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
