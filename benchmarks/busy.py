"""How much slower the runtime cpu becomes beside other processes, in turns with ONNX Runtime on as many threads.

    python benchmarks/busy.py [--models A,B] [--threads 1,2,3,4] [--busy 0,1,2] [--turns N] [--opencl] [--json]
    taskset -c 0 python benchmarks/busy.py --threads 2        # one core for all

The busy processes do nothing but compute; those that a turn does not want are stopped. A round's time is the mean of a
turn here, since what other work costs comes in a few long stalls. Slow-downs are ratios of pairs of turns.
"""

import contextlib
import json
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import mean

import click

sys.path.insert(0, str(Path(__file__).parents[1]))  # the folder of a script is searched for imports, the tree is not

from benchmarks import networks
from benchmarks.engines import Farmrt, OnnxRuntime, test_inputs
from benchmarks.figures import Interval
from benchmarks.interleaving import Contender, ContenderTimes, measure_interleaved
from benchmarks.scratch import scratch
from farm.config.execution import Execution
from farm.config.inventory import HOST
from farm.jobs.fleet.opening import open_unit
from farm.jobs.loading import NO_ARTIFACT, LoadOptions
from farm.jobs.models.prepare import Prepared
from farm.rows.record import Record
from farm.tables.table import Table, show
from runtime.statistics.ratios import MINIMUM_ROUNDS, ratio_of_pairs

LIMIT_S = 120.0  # of one comparison in turns
COMPUTE = "import os\nparent = os.getppid()\nwhile os.getppid() == parent:\n    sum(range(1000))"
COLUMNS = ("Model", "Threads", "Busy", "Engine", "Time(ms)", "Slow-down", "Beside ONNX Runtime's")


class Slowdown(Record):
    """One engine beside some busy processes. A slow-down is over its own time beside none, or beside the fewest."""

    model: str
    threads: int
    busy: int
    engine: str
    mean_ms: float
    slowdown: Interval | None = None
    beside_onnxruntime: Interval | None = None  # this slow-down over ONNX Runtime's


class BusyProcesses:
    """Processes that compute without end, of which some go on at a time."""

    def __init__(self, count: int) -> None:
        self._processes = [
            subprocess.Popen([sys.executable, "-c", COMPUTE], start_new_session=True) for _ in range(count)
        ]
        self.go_on(0)

    def go_on(self, count: int) -> None:
        """Lets the first `count` compute, and stops the others."""
        for index, process in enumerate(self._processes):
            process.send_signal(signal.SIGCONT if index < count else signal.SIGSTOP)

    def end(self) -> None:
        """Ends all."""
        for process in self._processes:
            process.kill()
            process.wait()


class Beside:
    """A contender beside some busy processes."""

    def __init__(self, contender: Contender, processes: BusyProcesses, busy: int) -> None:
        self.name, self.busy = contender.name, busy
        self._contender, self._processes = contender, processes

    def turn(self, rounds: int, warmup: int) -> list[float]:
        """See Contender."""
        self._processes.go_on(self.busy)
        try:
            return self._contender.turn(rounds, warmup)
        finally:
            self._processes.go_on(0)


def _numbers(context: click.Context, parameter: click.Parameter, text: str) -> list[int]:
    return sorted({int(word) for word in text.split(",")})


@click.command()
@click.option("--models", default="mobilenet_v2", show_default=True)
@click.option("--threads", callback=_numbers, default="1,2,3,4", show_default=True)
@click.option("--busy", "levels", callback=_numbers, default="0,1,2", show_default=True, help="Numbers of processes.")
@click.option("--turns", type=click.IntRange(MINIMUM_ROUNDS), default=12, show_default=True)
@click.option("--opencl", is_flag=True, help="Also the runtime gpu, on all cores.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def main(models: str, threads: list[int], levels: list[int], turns: int, opencl: bool, as_json: bool) -> None:
    """Slow-downs beside busy processes."""
    found: list[Slowdown] = []
    with networks.zoo_networks(models.split(",")) as zoo, _processes(max(levels)) as processes:
        for network in zoo:
            prepared = network.prepared()
            for number in threads:
                with _engines(prepared, number, opencl) as engines:
                    lanes = [Beside(engine, processes, busy) for engine in engines for busy in levels]
                    measured = measure_interleaved(lanes, turns, LIMIT_S)
                found += slowdowns(prepared.name, number, dict(zip(_keys(lanes), measured, strict=True)))
    if as_json:
        click.echo(json.dumps([each.model_dump() for each in found]))
    else:
        show([Table("", COLUMNS, [_cells(each) for each in found], left=frozenset(COLUMNS[:1]))])


def slowdowns(model: str, threads: int, lanes: dict[tuple[str, int], ContenderTimes]) -> Iterator[Slowdown]:
    """What lanes by engine and number of busy processes say; ONNX Runtime's are the first."""
    times = {key: _means(lane) for key, lane in lanes.items()}
    reference, least = next(iter(times))
    for (engine, busy), own in times.items():
        ratios = _over(own, times[engine, least])
        reference_ratios = _over(times[reference, busy], times[reference, least])
        yield Slowdown(
            model=model,
            threads=threads,
            busy=busy,
            engine=engine,
            mean_ms=mean(own),
            slowdown=_interval(ratios) if busy != least else None,
            beside_onnxruntime=_interval(_over(ratios, reference_ratios)) if busy != least else None,
        )


def _means(lane: ContenderTimes) -> list[float]:
    if lane.reason:
        raise click.ClickException(f"{lane.contender.name}: {lane.reason}")
    return [mean(turn) for turn in lane.turns]


def _over(own: Sequence[float], other: Sequence[float]) -> list[float]:
    return [a / b for a, b in zip(own, other, strict=True)]


def _interval(ratios: Sequence[float]) -> Interval | None:
    ratio = ratio_of_pairs(ratios, [1.0] * len(ratios))
    return Interval.of(ratio) if ratio else None


def _keys(lanes: Sequence[Beside]) -> list[tuple[str, int]]:
    return [(lane.name, lane.busy) for lane in lanes]


@contextlib.contextmanager
def _processes(count: int) -> Iterator[BusyProcesses]:
    processes = BusyProcesses(count)
    try:
        yield processes
    finally:
        processes.end()


@contextlib.contextmanager
def _engines(prepared: Prepared, threads: int, opencl: bool) -> Iterator[list[Contender]]:
    """ONNX Runtime, the runtime cpu, and the runtime gpu where it is wanted."""
    given = prepared.with_execution(Execution(num_threads=threads))
    inputs, options = test_inputs(prepared), LoadOptions(tuned=NO_ARTIFACT)
    with scratch(), open_unit(HOST) as opened, contextlib.ExitStack() as stack:
        twins = [stack.enter_context(opened.twin()) for _ in range(2 if opencl else 1)]
        engines: list[Contender] = [OnnxRuntime(prepared.source, inputs, threads)]
        engines.append(Farmrt("cpu", twins[0], given, inputs, options, "cpu"))
        if opencl:
            engines.append(Farmrt("gpu", twins[1], prepared, inputs, options, "gpu"))
        yield engines


def _cells(found: Slowdown) -> list[str]:
    words = [
        f"{each.value:.2f} ({each.low:.2f} to {each.high:.2f})" if each else "-"
        for each in (found.slowdown, found.beside_onnxruntime)
    ]
    return [found.model, str(found.threads), str(found.busy), found.engine, f"{found.mean_ms:.2f}", *words]


if __name__ == "__main__":
    main()
