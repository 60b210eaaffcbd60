"""`farm opbench`: times single operators on a unit until their medians are sure."""

import dataclasses
import functools
import math
import re
import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from farm.config.execution import DEFAULT, Execution
from farm.config.inventory import Unit
from farm.farmrt.answers import LoadAnswer
from farm.jobs.custom_cases import CustomCase
from farm.jobs.fleet.dispatch import FLEET, FleetOptions, Job, run_jobs
from farm.jobs.fleet.execution import hint_figures
from farm.jobs.fleet.job_rows import Settings, again_in_fresh_farmrt, again_where_killed, is_ok
from farm.jobs.fleet.plan_files import write_plan
from farm.jobs.fleet.progress import SILENT, ProgressView
from farm.jobs.fleet.unit import OpenUnit
from farm.jobs.opbench_cases import CASES, Benchmark, benchmarks, spread_percent
from farm.rows.execution import HintFigures
from farm.rows.opbench import OpbenchFigures, OpbenchResult, OpbenchRow
from farm.rows.result import Conditions, make_row
from farm.rows.row import Failure, Identity, Provenance, UnitStates, row_fingerprint
from farm.workspace import Workspace, data_file
from runtime.errors import FarmError, UnsupportedError
from runtime.lowering.trial_inputs import trial_inputs
from runtime.operators.case import SEED, OperatorCase
from runtime.plan.plan import Plan
from runtime.target import Target
from runtime.types import device_precisions
from tuner.speed_states import speed_states

WORKSPACE = Workspace("opbench")
NS_PER_S = 1e9
SURE_PERCENT = 2.0
MAX_TIME_FACTOR = 5  # a launch that stays noisy is given up after this many times --min-time
BATCHES_A_MINIMUM = 10  # trials are asked for in about this many commands within --min-time
MAX_REPS = 10_000
RAMP_MS = 20  # a launch whose times do not agree by then is timed all the same


@dataclasses.dataclass(frozen=True)
class OpbenchOptions:
    """What `farm opbench` was asked for; empty memories or precisions mean all that the unit has.

    `custom`: cases of users' operators, beside those of ours.
    """

    pattern: re.Pattern[str]
    min_time_s: float = 0.2
    all_variants: bool = False
    memory: str | None = None
    precision: str | None = None
    execution: Execution = DEFAULT
    custom: tuple[CustomCase, ...] = ()

    @property
    def settings(self) -> Settings:
        """Settings of a row that are known before anything runs."""
        return {"min_time_s": self.min_time_s, **self.execution.given}


def opbench_job(
    units: Sequence[Unit], options: OpbenchOptions, fleet: FleetOptions = FLEET, progress: ProgressView = SILENT
) -> Iterator[OpbenchRow]:
    """A row for each benchmark whose name matches, on each unit."""

    def run(opened: OpenUnit) -> Iterator[OpbenchRow]:
        for of_case in _chosen(opened, options):
            yield from _case_rows(opened, of_case, options, fleet.retries)

    def failed(unit: Unit, error: FarmError) -> OpbenchRow:
        return _row(unit, options.pattern.pattern, options, Failure.of(error))

    yield from run_jobs([Job([unit], run, is_ok, failed) for unit in units], fleet, progress)


def list_benchmarks(units: Sequence[Unit], options: OpbenchOptions, fleet: FleetOptions = FLEET) -> list[str]:
    """Names of the benchmarks that match, each once; raises the error of a unit that cannot be opened."""

    def names(opened: OpenUnit) -> Iterator[str]:
        for of_case in _chosen(opened, options):
            yield from (benchmark.name for benchmark in of_case)

    def failed(unit: Unit, error: FarmError) -> str:
        raise error

    return list(dict.fromkeys(run_jobs([Job([unit], names, bool, failed) for unit in units], fleet)))


def _chosen(opened: OpenUnit, options: OpbenchOptions) -> Iterator[list[Benchmark]]:
    """The benchmarks that match, a list for each case; an operator that images send to buffers comes only once."""
    seen: set[str] = set()
    for target in _targets(opened, options):
        for case in (*CASES, *options.custom):
            new = [benchmark for benchmark in _matching(case, target, options) if benchmark.name not in seen]
            seen |= {benchmark.name for benchmark in new}
            yield new


def _targets(opened: OpenUnit, options: OpbenchOptions) -> Iterator[Target]:
    """A target for each memory type and precision that the unit has and the user wants."""
    device = opened.probe.opencl.device
    if device is None:
        name = opened.unit.name
        raise UnsupportedError(f"unit {name!r} has no OpenCL driver; `farm doctor --device {name}` says what to do")
    memories = ["buffer", *(["image"] if device.images else [])]
    for memory in memories:
        for precision in device_precisions(device.fp16):
            if options.memory in (None, memory) and options.precision in (None, precision.label):
                yield opened.probe.target(opened.unit.soc, memory=memory, precision=precision)


def _matching(case: OperatorCase, target: Target, options: OpbenchOptions) -> list[Benchmark]:
    """The benchmarks of a case that match; none where the device's limits do not admit the operator."""
    try:
        of_case = list(benchmarks(case, target, options.all_variants))
    except UnsupportedError:
        return []
    return [benchmark for benchmark in of_case if options.pattern.search(benchmark.name)]


def _case_rows(
    opened: OpenUnit, of_case: Sequence[Benchmark], options: OpbenchOptions, retries: int
) -> Iterator[OpbenchRow]:
    """Rows of one case's benchmarks, which are launches of one plan."""
    loaded: LoadAnswer | None = None
    process = 0  # the farmrt that has it

    def measured(benchmark: Benchmark) -> OpbenchRow:
        nonlocal loaded, process
        if not loaded or not opened.session.alive or process != opened.session.respawns:
            loaded = _load(opened, benchmark.plan, benchmark.case, options.execution)
            process = opened.session.respawns
        return _measured_row(opened, benchmark, options, loaded)

    for benchmark in of_case:
        opened.progress.stage(benchmark.name)
        try:
            attempt = functools.partial(again_in_fresh_farmrt, opened, functools.partial(measured, benchmark))
            yield again_where_killed(opened, retries, attempt)
        except FarmError as error:
            failed = OpbenchResult(ending=Failure.of(error), provenance=_provenance(opened, benchmark))
            yield _row(opened.unit, benchmark.name, options, failed)


def _load(opened: OpenUnit, plan: Plan, case: OperatorCase, execution: Execution) -> LoadAnswer:
    """Loads a case's plan and runs it once, so that every step's input is there."""
    opened.session.revive()
    write_plan(plan, _plan_file(opened))
    loaded = opened.load(_plan_file(opened), execution=execution)
    opened.write_inputs(trial_inputs(case.graph(), np.random.default_rng(SEED)))
    opened.first_round()
    return loaded


def _plan_file(opened: OpenUnit) -> Path:
    return WORKSPACE.plan_file("case", opened.unit.abi, opened.unit.soc, "gpu")


def _measured_row(opened: OpenUnit, benchmark: Benchmark, options: OpbenchOptions, loaded: LoadAnswer) -> OpbenchRow:
    before = opened.state()

    own_ns: list[float] = []

    def trial(reps: int) -> list[float]:
        words = {"reps": reps, "warmup": 1, "ramp_ms": RAMP_MS, "pairs": int(options.all_variants)}
        answer = opened.limited_trial(**benchmark.launch, **words)
        own_ns.extend(answer.own_ns)
        return answer.ns

    samples_ns = measure(trial, options.min_time_s)
    states = UnitStates(state_before=before, state_after=opened.state())
    files = {"plan": _plan_file(opened), "weights": data_file(_plan_file(opened))}
    result = OpbenchResult(
        provenance=_provenance(opened, benchmark, opened.hashes(files)),
        figures=_figures(benchmark, samples_ns, own_ns, hint_figures(loaded)),
    )
    return _row(opened.unit, benchmark.name, options, result, states)


def _figures(
    benchmark: Benchmark, samples_ns: Sequence[float], own_ns: Sequence[float], hints: HintFigures
) -> OpbenchFigures:
    """The figures; `own_ns` are the default's times, see `ratio_in_pairs`."""
    median_ns = statistics.median(samples_ns)
    states = speed_states(samples_ns)
    return OpbenchFigures(
        time_ns=median_ns,
        min_ns=min(samples_ns),
        iterations=len(samples_ns),
        input_mb_s=benchmark.input_bytes / median_ns * 1e3,
        gmacps=benchmark.step.macs / median_ns,
        spread_percent=spread_percent(samples_ns),
        ratio_to_default=ratio_in_pairs(samples_ns, own_ns),
        slow_state_ratio=states.ratio if states else None,
        slow_state_share=states.slow_share if states else None,
        **dict(hints),
    )


def ratio_in_pairs(samples_ns: Sequence[float], own_ns: Sequence[float]) -> float | None:
    """Median of the ratios of samples to the default's times in turns with them; None without such.

    `own_ns` begins with the times of the warm-up, to which no sample belongs.
    """
    pairs = zip(reversed(samples_ns), reversed(own_ns), strict=False)
    ratios = [ns / default_ns for ns, default_ns in pairs if default_ns]
    return statistics.median(ratios) if ratios else None


def _provenance(opened: OpenUnit, benchmark: Benchmark, hashes: Mapping[str, str] | None = None) -> Provenance:
    return Provenance(
        fingerprint=row_fingerprint(benchmark.plan.target),
        settings={"opencl_library": opened.opencl_library},
        hashes=dict(hashes or {}),
    )


def _row(
    unit: Unit,
    benchmark: str,
    options: OpbenchOptions,
    outcome: OpbenchResult | Failure,
    states: UnitStates | None = None,
) -> OpbenchRow:
    identity = Identity(
        unit=unit.name, soc=unit.soc, device_model=unit.model, library=WORKSPACE.library, model=benchmark, runtime="gpu"
    )
    conditions = Conditions(options.settings, states or UnitStates())
    return make_row(OpbenchRow, identity, conditions, outcome)


def measure(trial: Callable[[int], Iterable[float]], min_time_s: float) -> list[float]:
    """Samples in nanoseconds of `trial(reps)`, until they last for `min_time_s` and their median is sure to 2 %.

    A launch that stays noisy is given up after five times that; the spread then tells.
    """
    list(trial(1))  # builds the program
    samples = list(trial(2))
    while True:
        total_ns, mean_ns = sum(samples), max(1.0, statistics.fmean(samples))
        enough = total_ns >= min_time_s * NS_PER_S and spread_percent(samples) <= SURE_PERCENT
        if enough or total_ns >= MAX_TIME_FACTOR * min_time_s * NS_PER_S:
            return samples
        reps = math.ceil(min_time_s * NS_PER_S / BATCHES_A_MINIMUM / mean_ns)
        samples += trial(min(reps, MAX_REPS))
