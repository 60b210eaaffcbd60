"""`farm opbench`: times single operators on a unit until their medians are sure."""

from __future__ import annotations

import dataclasses
import math
import re
import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from farm.condition.device_state import read_state
from farm.config.inventory import Unit
from farm.jobs.fleet.dispatch import FLEET, FleetOptions, Job, run_jobs
from farm.jobs.fleet.job_rows import failed_members, is_ok
from farm.jobs.fleet.progress import UNWATCHED, Watch
from farm.jobs.fleet.unit import FIRST_ROUND_DEADLINE_S, OpenUnit, write_plan
from farm.jobs.opbench_cases import CASES, SEED, Benchmark, Case, OpbenchRow, benchmarks, spread_percent
from farm.rows.row import Status, row_fingerprint
from farm.workspace import Workspace, data_file
from runtime.errors import FarmError, UnsupportedError
from runtime.plan.plan import Plan
from runtime.target import Target, target_from_probe
from runtime.types import Precision

WORKSPACE = Workspace("opbench")
NS_PER_S = 1e9
TRIAL_DEADLINE_S = 300.0
SURE_PERCENT = 2.0
MAX_TIME_FACTOR = 5  # a launch that stays noisy is given up after this many times --min-time
BATCHES_A_MINIMUM = 10  # trials are asked for in about this many commands within --min-time
MAX_REPS = 10_000


@dataclasses.dataclass(frozen=True)
class OpbenchOptions:
    """What `farm opbench` was asked for; empty memories or precisions mean all that the unit has."""

    pattern: re.Pattern[str]
    min_time_s: float = 0.2
    all_variants: bool = False
    memory: str | None = None
    precision: str | None = None


def opbench_job(
    units: Sequence[Unit], options: OpbenchOptions, fleet: FleetOptions = FLEET, watch: Watch = UNWATCHED
) -> Iterator[OpbenchRow]:
    """A row for each benchmark whose name matches, on each unit."""

    def run(opened: OpenUnit) -> Iterator[OpbenchRow]:
        for chosen in _chosen(opened, options):
            yield from _case_rows(opened, chosen, options)

    def failed(unit: Unit, error: FarmError) -> OpbenchRow:
        return _made_row(unit, options, model=options.pattern.pattern, **failed_members(error))

    yield from run_jobs([Job([unit], run, is_ok, failed) for unit in units], fleet, watch)


def list_benchmarks(units: Sequence[Unit], options: OpbenchOptions, fleet: FleetOptions = FLEET) -> list[str]:
    """Names of the benchmarks that match, each once; raises the error of a unit that cannot be opened."""

    def names(opened: OpenUnit) -> Iterator[str]:
        for chosen in _chosen(opened, options):
            yield from (found.name for found in chosen)

    def failed(unit: Unit, error: FarmError) -> str:
        raise error

    return list(dict.fromkeys(run_jobs([Job([unit], names, bool, failed) for unit in units], fleet)))


def _chosen(opened: OpenUnit, options: OpbenchOptions) -> Iterator[list[Benchmark]]:
    """The benchmarks that match, a list for each case; an operator that images send to buffers comes only once."""
    seen: set[str] = set()
    for target in _targets(opened, options):
        for case in CASES:
            found = [benchmark for benchmark in _matching(case, target, options) if benchmark.name not in seen]
            seen |= {benchmark.name for benchmark in found}
            yield found


def _targets(opened: OpenUnit, options: OpbenchOptions) -> Iterator[Target]:
    """A target for each memory type and precision that the unit has and the user wants."""
    device = opened.probe["opencl"].get("device")
    if device is None:
        raise UnsupportedError(f"unit {opened.unit.name!r} has no OpenCL driver; `farm doctor` says how to get one")
    memories = ["buffer", *(["image"] if device["images"] else [])]
    precisions = [Precision.FP32, Precision.FP16_STORAGE, *([Precision.FP16] if device["fp16"] else [])]
    for memory in memories:
        for precision in precisions:
            if options.memory in (None, memory) and options.precision in (None, precision.name.lower()):
                yield target_from_probe(opened.probe, opened.unit.soc, memory=memory, precision=precision)


def _matching(case: Case, target: Target, options: OpbenchOptions) -> list[Benchmark]:
    """The benchmarks of a case that match; none where the device's limits do not admit the operator."""
    try:
        found = list(benchmarks(case, target, options.all_variants))
    except UnsupportedError:
        return []
    return [benchmark for benchmark in found if options.pattern.search(benchmark.name)]


def _case_rows(opened: OpenUnit, chosen: Sequence[Benchmark], options: OpbenchOptions) -> Iterator[OpbenchRow]:
    """Rows of one case's benchmarks, which are launches of one plan."""
    loaded = False
    for benchmark in chosen:
        opened.watch.stage(benchmark.name)
        try:
            if not loaded or not opened.session.alive:
                _load(opened, benchmark.plan)
                loaded = True
            yield _row(opened, benchmark, options)
        except FarmError as error:
            yield _made_row(opened.unit, options, **_identity(opened, benchmark), **failed_members(error))


def _load(opened: OpenUnit, plan: Plan) -> None:
    """Loads a case's plan and runs it once, so that every step's input is there."""
    if not opened.session.alive:
        opened.session.respawn()
    write_plan(plan, _plan_file(opened))
    opened.load(_plan_file(opened))
    random = np.random.default_rng(SEED)
    inputs = {tensor.name: random.uniform(-1, 1, tensor.shape).astype(np.float32) for tensor in plan.inputs}
    opened.write_inputs(inputs)
    opened.session.command("run", rounds=1, deadline_s=FIRST_ROUND_DEADLINE_S)


def _plan_file(opened: OpenUnit) -> Path:
    return WORKSPACE.plan_file("case", opened.unit.abi, opened.unit.soc, "gpu")


def _row(opened: OpenUnit, benchmark: Benchmark, options: OpbenchOptions) -> OpbenchRow:
    before = read_state(opened.transport)

    def trial(reps: int) -> list[float]:
        words = {**benchmark.launch, "reps": reps, "warmup": 1}
        ns: list[float] = opened.session.command("trial", deadline_s=TRIAL_DEADLINE_S, **words)["ns"]
        return ns

    samples_ns = measure(trial, options.min_time_s)
    median_ns = statistics.median(samples_ns)
    figures: dict[str, Any] = {
        "time_ns": median_ns,
        "min_ns": min(samples_ns),
        "iterations": len(samples_ns),
        "input_mb_s": benchmark.input_bytes / median_ns * 1e3,
        "gmacps": benchmark.step.macs / median_ns,
        "spread_percent": spread_percent(samples_ns),
        "state_before": before,
        "state_after": read_state(opened.transport),
        "hashes": opened.hashes({"plan": _plan_file(opened), "weights": data_file(_plan_file(opened))}),
    }
    return _made_row(opened.unit, options, **_identity(opened, benchmark), **figures)


def _identity(opened: OpenUnit, benchmark: Benchmark) -> dict[str, Any]:
    library = {"opencl_library": opened.opencl_library}
    return {"model": benchmark.name, "fingerprint": row_fingerprint(benchmark.plan.target), "settings": library}


def _made_row(
    unit: Unit, options: OpbenchOptions, settings: Mapping[str, object] | None = None, **members: Any
) -> OpbenchRow:
    identity = {
        "unit": unit.name,
        "soc": unit.soc,
        "device_model": unit.model,
        "library": WORKSPACE.library,
        "runtime": "gpu",
        "status": Status.OK,
        "settings": {"min_time_s": options.min_time_s, **(settings or {})},
    }
    return OpbenchRow.model_validate(identity | members)


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
