"""One model on one driver: tuned, then all ways to run it in turns with ONNX Runtime, then its starts from cold."""

import contextlib
import dataclasses
import time
from collections.abc import Callable, Mapping, Sequence

from benchmarks.cold_start import cold_start
from benchmarks.engines import Farmrt, OnnxRuntime, test_inputs
from benchmarks.figures import ColdStart, Entrant, Interval, Run, Tuning
from benchmarks.interleaving import ContenderTimes, Failures, measure_interleaved
from benchmarks.networks import Network
from benchmarks.scratch import scratch
from farm.config.inventory import HOST
from farm.farmrt import drivers
from farm.jobs.fleet.dispatch import FleetOptions
from farm.jobs.fleet.opening import open_unit
from farm.jobs.fleet.unit import OpenUnit
from farm.jobs.loading import NO_ARTIFACT, LoadOptions
from farm.jobs.tune.job import TuneOptions, tune_job
from farm.jobs.tune.search import SearchOptions
from farm.rows.latency import Latency
from farm.rows.status import Status
from farm.rows.tune import TuneOutcome, TuneRow
from runtime.families.convolution.node import gains_by_winograd
from runtime.graph import Array
from runtime.statistics.ratios import ratio_of_medians
from runtime.types import Winograd

DEFAULT, TUNED = "default", "tuned"
FIXED: tuple[Winograd, ...] = (0, 2, 4)  # 0: none of it
CONFIDENCE = 0.95

Say = Callable[[str], None]


@dataclasses.dataclass(frozen=True)
class Options:
    """How much is measured. Without a `level` nothing is tuned, and only the default takes turns.

    `budget_s` is the tuning's wall time, None for a search as long as the level's.
    """

    turns: int
    limit_s: float
    level: str | None = "quick"
    budget_s: float | None = None


@dataclasses.dataclass(frozen=True)
class RunVariant:
    """A way to run a model."""

    name: str
    winograd: Winograd
    load: LoadOptions


def measure(network: Network, driver: drivers.Driver, options: Options, say: Say) -> Run:
    """A run, whatever fails in it."""
    failures = Failures()
    figures = _Figures()
    with failures.recorded("set-up"), scratch():
        figures.measure(_Bench(network, str(driver.path), options, failures, say))
    return Run(
        model=network.name,
        driver=driver.origin,
        entrants=tuple(figures.entrants),
        tunings=tuple(figures.tunings),
        cold_start=figures.cold_start,
        failures=tuple(failures.lines),
    )


@dataclasses.dataclass(frozen=True)
class _Bench:
    """What every stage needs."""

    network: Network
    opencl: str
    options: Options
    failures: Failures
    say: Say

    def open(self) -> contextlib.AbstractContextManager[OpenUnit]:
        """The host with the driver; a unit is opened once at a time, also by the tuning."""
        return open_unit(HOST, self.opencl)


@dataclasses.dataclass
class _Figures:
    """Figures so far."""

    entrants: list[Entrant] = dataclasses.field(default_factory=list)
    tunings: list[Tuning] = dataclasses.field(default_factory=list)
    cold_start: ColdStart | None = None

    def measure(self, bench: _Bench) -> None:
        prepared = bench.network.prepared()
        inputs = test_inputs(prepared)
        onnxruntime = OnnxRuntime(prepared.source, inputs)
        ways = [RunVariant(DEFAULT, "default", LoadOptions(NO_ARTIFACT, NO_ARTIFACT))]
        if bench.options.level:
            ways += self._tuned_ways(bench, bench.options.level)
        with bench.open() as opened:
            bench.say("in turns")
            self.entrants = _entrants(bench, opened, ways, onnxruntime, inputs)
            if TUNED in (way.name for way in ways):
                bench.say("from cold")
                with bench.failures.recorded("from cold"):
                    self.cold_start = cold_start(opened, prepared, inputs, onnxruntime.first_result_s)

    def _tuned_ways(self, bench: _Bench, level: str) -> list[RunVariant]:
        """Tunes; returns all ways but the default: tuned, and with one algorithm for all where there are several."""
        ways = []
        bench.say("tune")
        with bench.failures.recorded("tune"):
            tuning = tune(bench, level)
            self.tunings.append(tuning)
            if tuning.status == Status.OK and not tuning.reason:
                ways.append(RunVariant(TUNED, "default", LoadOptions()))
            else:
                bench.failures.lines.append(f"tune: {tuning.status}: {tuning.reason}")
        graph = bench.network.prepared().graph
        fixed = FIXED if any(node.op == "Conv" and gains_by_winograd(graph, node) for node in graph.nodes) else ()
        return ways + [RunVariant(f"winograd {tile}", tile, LoadOptions(NO_ARTIFACT, NO_ARTIFACT)) for tile in fixed]


def tune(bench: _Bench, level: str) -> Tuning:
    """`farm tune` of the model, as a user would call it."""
    search = SearchOptions(level, bench.options.budget_s)
    fleet = FleetOptions("benchmark", bench.opencl)
    start_s = time.perf_counter()
    (row,) = tune_job([bench.network.deployment()], [HOST], TuneOptions(search), fleet)
    return _tuning(row, level, time.perf_counter() - start_s)


def _tuning(row: TuneRow, level: str, wall_s: float) -> Tuning:
    gain = None
    if row.gain_percent is not None and row.gain_ci is not None:
        gain = Interval(value=row.gain_percent, low=row.gain_ci[0], high=row.gain_ci[1])
    return Tuning(
        level=level,
        status=row.status,
        reason=row.outcome_reason if row.outcome == TuneOutcome.NOT_TUNED else row.reason,
        device_s=row.device_s,
        wall_s=wall_s,
        trials=row.trials,
        launches=row.launches,
        launches_tuned=row.launches_tuned,
        gain_percent=gain,
    )


def _entrants(
    bench: _Bench, opened: OpenUnit, ways: Sequence[RunVariant], onnxruntime: OnnxRuntime, inputs: Mapping[str, Array]
) -> list[Entrant]:
    """ONNX Runtime first, then the ways that could be loaded."""
    with contextlib.ExitStack() as stack:
        loaded = []
        for way in ways:
            with bench.failures.recorded(way.name):
                prepared = bench.network.prepared(way.winograd)
                twin = stack.enter_context(opened.twin())
                loaded.append(Farmrt(way.name, twin, prepared, inputs, way.load))
        lanes = measure_interleaved([onnxruntime, *loaded], bench.options.turns, bench.options.limit_s)
        entrants = [_entrant(lane, lanes[0]) for lane in lanes]
        return [entrants[0], *(_examined(*pair, onnxruntime) for pair in zip(entrants[1:], loaded, strict=True))]


def _entrant(lane: ContenderTimes, reference: ContenderTimes) -> Entrant:
    name = lane.contender.name
    if lane.reason or not lane.turns:
        return Entrant(name=name, status=Status.FAILED, reason=lane.reason)
    latency = Latency.of([ms for turn in lane.turns for ms in turn])
    ratio = ratio_of_medians(lane.turns, reference.turns, CONFIDENCE) if reference.turns else None
    return Entrant(name=name, latency_ms=latency, to_onnxruntime=Interval.of(ratio) if ratio else None)


def _examined(entrant: Entrant, farmrt: Farmrt, onnxruntime: OnnxRuntime) -> Entrant:
    """Whether its output is right."""
    if entrant.latency_ms is None:
        return entrant
    failures = Failures()
    members: dict[str, object] = {}
    with failures.recorded("examined"):
        members["status"], members["reason"] = farmrt.verdict(onnxruntime.outputs)
    if failures.lines:
        members |= {"status": Status.FAILED, "reason": "; ".join(failures.lines)}
    return entrant.model_copy(update=members)
