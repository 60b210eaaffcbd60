"""Measures ways through whole networks on an OpenCL driver of this machine: by a rule, and by the exact choice.

    python -m benchmarks.measured_selection RESULTS.json [--opencl system] [--seconds 120] [NETWORK ...]
    python -m benchmarks.measured_selection RESULTS.json --build [--opencl system] [NETWORK ...]
    python -m benchmarks.measured_selection RESULTS.json --table

Plans are profiled step by step until the choice of least cost rests on measured launches only; then all ways run in
turns, in fresh processes. Everything is kept in RESULTS.json as it comes: the next call goes on where the one before
ended, so that a machine need not be quiet for hours. `--build` only compiles the programs, for drivers that keep them.
`--table` prints in Markdown: predicted and measured ms of each way, its conversions, and the time of the exact choice
over that of the best other way.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import functools
import json
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.interleaving import measure_interleaved
from benchmarks.machine import machine
from benchmarks.selection import OPTIONS, Way, networks, rule, ways
from farm import atomic_file
from farm.config.inventory import HOST
from farm.jobs.compare.interleaved import warmup_rounds
from farm.jobs.fleet.unit import OpenUnit, open_unit, write_plan
from runtime.convert import convert
from runtime.graph import Graph
from runtime.lowering.assembly import assemble_plan
from runtime.lowering.builder import Builder
from runtime.lowering.choice import Place
from runtime.lowering.lower import Options, emit_launches
from runtime.peaks import Peaks, peaks_of
from runtime.selection.baselines import everywhere
from runtime.selection.candidates import Candidates
from runtime.selection.costs import AnalyticCosts, MeasuredCosts, cost_key, total_ms
from runtime.selection.listing import find_candidates
from runtime.selection.problem import make_problem
from runtime.target import Target
from tuner.statistics import ratio_of_pairs

DEADLINE_S = 120.0
PROFILE_MS = 1500.0  # of one plan; at least LEAST_ROUNDS
LEAST_ROUNDS, MOST_ROUNDS = 3, 15
TURNS = 4  # of each process
FASTER = 50.0  # what has not been measured is taken for so many times faster than the model of a CPU says
HOPELESS = 5.0
RULE = "by the rules"  # how a plan is made without a choice
EXACT = "exact"


@dataclasses.dataclass
class NetworkResults:
    """What was measured of a network so far.

    `beside`: ms of each round of the plan that runs beside those that are profiled. `launches`: by cost key, for each
    plan that has them, their time over that of the round beside. `processes`: of each way the median ms of each.
    """

    launches: dict[str, list[float]] = dataclasses.field(default_factory=dict)
    beside: list[float] = dataclasses.field(default_factory=list)
    plans: int = 0
    processes: dict[str, list[float]] = dataclasses.field(default_factory=dict)

    @property
    def costs(self) -> dict[str, float]:
        """Ms of each key: the median of the plans, for a round beside as it usually is."""
        usual_ms = statistics.median(self.beside) if self.beside else 0.0
        return {key: usual_ms * statistics.median(shares) for key, shares in self.launches.items()}


class LoadedWay:
    """A plan in a farmrt process of its own; a contender of the interleaved measurement."""

    def __init__(self, name: str, opened: OpenUnit, graph: Graph, builder: Builder, folder: Path) -> None:
        self.name, self._opened, self._builder = name, opened, builder
        path = folder / f"{name.replace(' ', '_')}.plan"
        write_plan(assemble_plan(builder), path)
        opened.load(path)
        opened.write_inputs(_inputs(graph))
        self._warmup = 1

    def turn(self, rounds: int, warmup: int) -> list[float]:
        """See Contender."""
        times = [ns / 1e6 for ns in self._opened.session.run(rounds, DEADLINE_S, warmup).wall_ns]
        self._warmup = warmup_rounds(min(times))
        return times

    def profiled(self) -> tuple[dict[str, float], float]:
        """Ms of the launches under each cost key in one round (the mean where several have it), and of the round.

        A round before brings caches and cores into the state in which the model itself leaves them, where it is short.
        """
        answer = self._opened.session.run(1, DEADLINE_S, self._warmup, profile=True)
        found: dict[str, list[float]] = {}
        for launch, step in zip(self._builder.launches, answer.steps, strict=True):
            found.setdefault(cost_key(launch), []).append(step.ns[0] / 1e6)
        return {key: statistics.mean(each) for key, each in found.items()}, answer.wall_ns[0] / 1e6


def _inputs(graph: Graph) -> dict[str, npt.NDArray[Any]]:
    random = np.random.default_rng(1)
    return {name: random.uniform(-1, 1, graph.shape(name)).astype(np.float32) for name in graph.inputs}


@dataclasses.dataclass
class Measuring:
    """A network on a driver; `ends_s` is when to stop, by time.monotonic."""

    opened: OpenUnit
    graph: Graph
    results: NetworkResults
    folder: Path
    ends_s: float

    def __post_init__(self) -> None:
        self.target: Target = self.opened.probe.target(self.opened.unit.soc, memory="buffer")
        self.candidates: Candidates = find_candidates(self.graph, self.target, OPTIONS)

    @property
    def is_over(self) -> bool:
        """Whether the time is spent."""
        return time.monotonic() >= self.ends_s

    @property
    def measured(self) -> MeasuredCosts:
        """Measured times; what is not measured costs next to nothing, so that it is measured if it could matter."""
        return MeasuredCosts(self.results.costs, AnalyticCosts(_scaled(peaks_of(self.target), FASTER)))

    def ways(self) -> list[Way]:
        """The ways as they are by the costs so far, the exact choice last."""
        made, selection = ways(self.candidates, self.target, self.measured)
        return [Way(RULE, selection.choice, self._by_the_rules()), *made]

    def profile_all(self, keep: Callable[[], None]) -> bool:
        """Profiles each way until all of its launches are measured, keeps each; whether that came to its end.

        A round of a plan is profiled beside one of the plan by the rules, and its times are kept as shares of that
        one's: so times of a slow minute and of a fast one can be compared.
        """
        if self._missing() is None:
            return True
        with self.opened.twin() as other:
            beside = LoadedWay("beside", other, self.graph, self._by_the_rules(), self.folder)
            beside.turn(2, 1)
            while missing := self._missing():
                if self.is_over:
                    return False
                self._profile(beside, missing)
                keep()
        return True

    def _by_the_rules(self) -> Builder:
        return emit_launches(self.graph, self.target, Options())

    def _missing(self) -> Builder | None:
        """The first way with a launch that was never measured."""
        known = self.results.launches
        lacking = (
            way.builder for way in self.ways() if any(cost_key(each) not in known for each in way.builder.launches)
        )
        return next(lacking, None)

    def _profile(self, beside: LoadedWay, builder: Builder) -> None:
        self.results.plans += 1
        way = LoadedWay(f"{self.graph.name}_{self.results.plans}", self.opened, self.graph, builder, self.folder)
        round_ms = min(way.turn(1, 1))
        count = min(max(int(PROFILE_MS / round_ms), LEAST_ROUNDS), MOST_ROUNDS)
        rounds = [(beside.profiled()[1], way.profiled()[0]) for _ in range(count)]
        self.results.beside += (ms for ms, _ in rounds)
        for key in rounds[0][1]:
            share = statistics.median(times[key] / beside_ms for beside_ms, times in rounds)
            self.results.launches.setdefault(key, []).append(share)

    def run_process(self) -> None:
        """Runs the ways in turns, each in a fresh process; those that are the same plan are one.

        What a process before showed to be HOPELESS times slower than the exact choice is not run again.
        """
        with contextlib.ExitStack() as stack:
            loaded = [
                LoadedWay(way.name, stack.enter_context(self.opened.twin()), self.graph, way.builder, self.folder)
                for way in _distinct(self.ways())
                if not self._is_hopeless(way.name)
            ]
            for lane in measure_interleaved(loaded, TURNS, 30.0):
                median = statistics.median(ms for turn in lane.turns for ms in turn)
                self.results.processes.setdefault(lane.contender.name, []).append(median)

    def _is_hopeless(self, way: str) -> bool:
        times = self.results.processes
        return way in times and min(times[way]) > HOPELESS * min(times[EXACT])

    def build(self) -> None:
        """Loads what will be profiled, as far as that is known, so that the driver has compiled it."""
        for tile in (0, 2, 4):
            for place in (Place.BUFFER, Place.IMAGE):
                fixed = dataclasses.replace(OPTIONS, winograd=tile)
                problem = make_problem(find_candidates(self.graph, self.target, fixed), self.measured)
                options = dataclasses.replace(fixed, choice=everywhere(problem, place))
                builder = emit_launches(self.graph, self.target, options)
                LoadedWay(f"build_{tile}_{place}", self.opened, self.graph, builder, self.folder).turn(1, 0)


def _plan_of(way: Way) -> tuple[str, ...]:
    return tuple(map(cost_key, way.builder.launches))


def _distinct(found: Sequence[Way]) -> list[Way]:
    """Each plan once, under the last name that it has."""
    return list({_plan_of(way): way for way in found}.values())


def _scaled(peaks: Peaks, factor: float) -> Peaks:
    return dataclasses.replace(
        peaks,
        macs=peaks.macs * factor,
        buffer_bytes=peaks.buffer_bytes * factor,
        image_bytes=peaks.image_bytes * factor,
        launch_ms=peaks.launch_ms / factor,
    )


# Results and their table


class ResultsFile:
    """Results by driver and network, kept as they come; the table needs each way's name, cost and conversions, too."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.rows: dict[str, dict[str, Any]] = json.loads(path.read_text()) if path.is_file() else {}

    def results(self, name: str) -> NetworkResults:
        """What is known of a network."""
        return NetworkResults(**self.rows.get(name, {}).get("results", {}))

    def keep(self, name: str, measuring: Measuring) -> None:
        """Keeps what is known now."""
        found, every = measuring.ways(), {cost_key(launch) for launch in measuring.candidates.launches()}
        names = {_plan_of(way): way.name for way in found}
        self.rows[name] = {
            "machine": machine().cpu,
            "results": dataclasses.asdict(measuring.results),
            "of": len(every),
            "measured": len(every & measuring.results.launches.keys()),
            "ways": {
                way.name: {
                    "measured_as": names[_plan_of(way)],
                    "ms": total_ms(way.builder.launches, measuring.measured),
                    "conversions": len(way.builder.conversions),
                }
                for way in found
            },
        }
        atomic_file.write(self._path, json.dumps(self.rows, indent=1).encode())

    def table(self) -> Iterator[str]:
        """The rows in Markdown, below a head."""
        ways_of = next(iter(self.rows.values()))["ways"]
        yield f"| driver, network | {' | '.join(ways_of)} | exact / best other | launches measured |"
        yield rule(len(ways_of) + 3)
        for name, row in self.rows.items():
            yield _table_row(name, row)


def _table_row(name: str, row: Mapping[str, Any]) -> str:
    processes: Mapping[str, list[float]] = row["results"]["processes"]
    cells = [_cell(way, processes.get(way["measured_as"], [])) for way in row["ways"].values()]
    launches = f"{row['measured']} of {row['of']}"
    return f"| {name} | {' | '.join(cells)} | {_against_best(processes)} | {launches} |"


def _cell(way: Mapping[str, Any], times: Sequence[float]) -> str:
    measured = f"{statistics.median(times):.2f}" if times else "-"
    return f"{way['ms']:.2f} / {measured} ({way['conversions']})"


def _against_best(processes: Mapping[str, Sequence[float]]) -> str:
    """Measured time of the exact choice over that of the best other plan, with its interval."""
    others = {name: times for name, times in processes.items() if name != EXACT}
    if not others:
        return "same plan"
    best = min(others, key=lambda name: statistics.median(others[name]))
    ratio = ratio_of_pairs(processes[EXACT], others[best])
    if ratio is None:
        return f"{statistics.median(processes[EXACT]) / statistics.median(others[best]):.3f}, {best}"
    return f"{ratio.value:.3f} ({ratio.low:.3f} to {ratio.high:.3f}), {best}"


def _measure(options: argparse.Namespace, kept: ResultsFile) -> None:
    ends_s = time.monotonic() + options.seconds
    with open_unit(HOST, options.opencl) as opened, tempfile.TemporaryDirectory(prefix="farm-selection.") as scratch:
        for network, make in networks(options.networks).items():
            name = f"{options.opencl}, {network}"
            results = kept.results(name)
            runs = max(map(len, results.processes.values()), default=0)
            if runs >= options.processes or time.monotonic() >= ends_s:
                continue
            measuring = Measuring(opened, convert(make())[0], results, Path(scratch), ends_s)
            if options.build:
                measuring.build()
                continue
            is_known = measuring.profile_all(functools.partial(kept.keep, name, measuring))
            while is_known and not measuring.is_over and runs < options.processes:
                measuring.run_process()
                runs += 1
                kept.keep(name, measuring)
            print(f"{name}: {results.plans} plans profiled, {runs} processes of each", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path, metavar="RESULTS.json")
    parser.add_argument("networks", nargs="*", metavar="NETWORK")
    parser.add_argument("--opencl", default="system", help="driver: a file, system, intel or pypi")
    parser.add_argument("--seconds", type=float, default=120.0, help="begin nothing new after so many")
    parser.add_argument("--processes", type=int, default=6, help="of each way")
    parser.add_argument("--build", action="store_true", help="only compile the programs")
    parser.add_argument("--table", action="store_true", help="only print what is known")
    options = parser.parse_intermixed_args()
    kept = ResultsFile(options.results)
    if options.table:
        print("\n".join(kept.table()))
        return
    _measure(options, kept)


if __name__ == "__main__":
    main()
