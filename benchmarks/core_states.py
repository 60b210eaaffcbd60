"""Why the same launch takes 1 or 1.6 times as long: what each core's speed depends on, beside a model's rounds.

    python benchmarks/core_states.py                      # the cores alone: working on, and with pauses
    python benchmarks/core_states.py --model mobilenet_v1 # and the model's rounds between, by the cores' state

Two small pieces of work run on every core at once (core_states.c): one that only the clock slows down, and one that
takes twice as long when the core's other hyperthread works, for whoever. /proc/stat says what a hypervisor took.
"""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import os
import shutil
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import click

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks import networks
from benchmarks.engines import Farmrt, test_inputs
from farm.config.inventory import HOST
from farm.jobs.fleet.unit import open_unit
from farm.jobs.loading import NO_ARTIFACT, LoadOptions

SOURCE = Path(__file__).with_name("core_states.c")
WINDOW_MS = 3.0
PAUSES = ((0.0, 0.0), (300.0, 50.0), (300.0, 1000.0), (300.0, 10_000.0))  # microseconds of work, of pause
SHARED = 1.25  # the full-width work over the chain, against the best seen: from here on somebody shares the core
STOLEN = 8  # member of a line of /proc/stat

Medians = list[tuple[float, float]]
Measure = Callable[[float, float], Medians]


@dataclasses.dataclass(frozen=True)
class Window:
    """What all cores did at one time: each core's chain and full-width work, in ns."""

    cores: Medians

    def width(self) -> float:
        """The full-width work over the chain, of the worst core."""
        return max(nops_ns / chain_ns for chain_ns, nops_ns in self.cores)

    def clock(self) -> float:
        """The slowest core's chain, in ns."""
        return max(chain_ns for chain_ns, _ in self.cores)


@contextlib.contextmanager
def measuring() -> Iterator[Measure]:
    """Compiles the two pieces of work; measures all cores of this process for one window."""
    cpus = sorted(os.sched_getaffinity(0))
    compiler = shutil.which("cc")
    if not compiler:
        raise click.ClickException("cc is needed to compile benchmarks/core_states.c")
    with TemporaryDirectory(prefix="farm-benchmark.") as folder:
        library = Path(folder) / "core_states.so"
        command = [compiler, "-D_GNU_SOURCE", "-O2", "-shared", "-fPIC", str(SOURCE), "-o", str(library), "-lpthread"]
        subprocess.run(command, check=True)
        measure_cores = ctypes.CDLL(str(library)).cores_measure

        def measure(work_us: float, pause_us: float) -> Medians:
            medians = (ctypes.c_double * (2 * len(cpus)))()
            times = (ctypes.c_double(WINDOW_MS), ctypes.c_double(work_us), ctypes.c_double(pause_us))
            if measure_cores((ctypes.c_int * len(cpus))(*cpus), len(cpus), *times, medians):
                raise click.ClickException("the cores cannot be measured")
            return list(zip(medians[::2], medians[1::2], strict=True))

        yield measure


def stolen_s() -> float:
    """What the hypervisor took of all cores since the start."""
    return int(Path("/proc/stat").read_text().split("\n", 1)[0].split()[STOLEN]) / os.sysconf("SC_CLK_TCK")


def show_pauses(measure: Measure, windows: int) -> float:
    """Whether pauses between pieces of work slow the cores down; kinds take turns. Returns the best width seen."""
    found: dict[tuple[float, float], list[Window]] = {pause: [] for pause in PAUSES}
    for _ in range(windows):
        for pause, of_pause in found.items():
            of_pause.append(Window(measure(*pause)))
    best = min(window.width() for of_pause in found.values() for window in of_pause)
    for (work_us, pause_us), of_pause in found.items():
        shared = statistics.fmean(window.width() > SHARED * best for window in of_pause)
        clock_ns = statistics.median(window.clock() for window in of_pause)
        kind = f"{work_us:.0f} us of work, {pause_us:.0f} us of pause" if pause_us else "without a pause"
        click.echo(f"{kind}: chain {clock_ns:.0f} ns; a core was shared in {100 * shared:.0f} % of {windows} windows")
    return best


def show_model(measure: Measure, model: str, driver: str, turns: int, best: float) -> None:
    """A model's rounds, each turn between two windows, by the state of the cores in both; `best`: the width so far."""
    with networks.zoo_networks([model]) as (network,), open_unit(HOST, driver) as opened:
        prepared = network.prepared()
        farmrt = Farmrt(model, opened, prepared, test_inputs(prepared), LoadOptions(NO_ARTIFACT, NO_ARTIFACT))
        farmrt.turn(5, 1)
        before_s = stolen_s()
        turns_ms = [_turn(measure, farmrt) for _ in range(turns)]
    best = min(best, *(width for width, _, _ in turns_ms))
    free = [ms for width, _, ms in turns_ms if width <= SHARED * best]
    shared = [ms for width, _, ms in turns_ms if width > SHARED * best]
    _show_group(f"{model}, every core for itself", free)
    _show_group(f"{model}, a core shared with a stranger", shared)
    clocks = [clock for _, clock, _ in turns_ms]
    click.echo(f"chain {min(clocks):.0f} to {max(clocks):.0f} ns; the hypervisor took {stolen_s() - before_s:.2f} s")


def _turn(measure: Measure, farmrt: Farmrt) -> tuple[float, float, float]:
    """Width and clock around some rounds, the worse of before and after, and the rounds' median in ms."""
    before = Window(measure(0.0, 0.0))
    ms = statistics.median(farmrt.turn(4, 1))
    after = Window(measure(0.0, 0.0))
    return max(before.width(), after.width()), max(before.clock(), after.clock()), ms


def _show_group(name: str, rounds_ms: Sequence[float]) -> None:
    if len(rounds_ms) < 2:
        click.echo(f"{name}: {len(rounds_ms)} turns")
        return
    low, median, high = statistics.quantiles(rounds_ms, n=4)
    click.echo(f"{name}: {median:.2f} ms ({low:.2f} to {high:.2f}), {len(rounds_ms)} turns")


@click.command()
@click.option("--model", help="A network of the zoo whose rounds are measured, too.")
@click.option("--driver", default="system", show_default=True, help="OpenCL driver for it.")
@click.option("--turns", type=click.IntRange(10), default=100, show_default=True)
def main(model: str | None, driver: str, turns: int) -> None:
    """Measure the states of this machine's cores."""
    with measuring() as measure:
        best = show_pauses(measure, turns)
        if model:
            show_model(measure, model, driver, turns, best)


if __name__ == "__main__":
    main()
