"""`farm benchmark`: each model with and without operator statistics, on every unit and runtime."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

from farm.config.deployment import Deployment, Model, Runtime
from farm.config.inventory import Unit
from farm.farmrt.answers import RunAnswer, waited_share
from farm.farmrt.session import Session
from farm.jobs.fleet.dispatch import FLEET, FleetOptions
from farm.jobs.fleet.execution import execution_figures, peak_memory
from farm.jobs.fleet.job_rows import KnownSettings, Settings, rows_of_each
from farm.jobs.fleet.progress import SILENT, ProgressView
from farm.jobs.fleet.round_limit import rounds_deadline_s
from farm.jobs.fleet.unit import OpenUnit
from farm.jobs.loading import LoadOptions, load_model, provenance_of
from farm.jobs.models.prepare import Prepared, TestData, prepare_all
from farm.jobs.run import NS_PER_MS, rounds_settings
from farm.rows.benchmark import BenchmarkResult, BenchmarkRow, LoadFigures, PlainRounds
from farm.rows.profile import StepTimes, profiled_rounds

MAX_TIMES_IN_ANSWER = 100_000  # keeps an answer well below the transport's limit for a line


@dataclasses.dataclass(frozen=True)
class BenchmarkOptions:
    """What `farm benchmark` was asked for."""

    rounds: int = 100
    warmup: int = 1
    load: LoadOptions = dataclasses.field(default_factory=LoadOptions)


def benchmark_job(
    deployment: Deployment,
    units: Sequence[Unit],
    options: BenchmarkOptions,
    fleet: FleetOptions = FLEET,
    progress: ProgressView = SILENT,
) -> Iterator[BenchmarkRow]:
    """A row for each unit, model and runtime."""

    def measure(opened: OpenUnit, prepared: Prepared, runtime: Runtime) -> BenchmarkResult:
        return _measured(opened, prepared, runtime, options)

    models = prepare_all(deployment, tell=progress.here)
    yield from rows_of_each(BenchmarkRow, models, units, measure, benchmark_settings(options), fleet, progress)


def benchmark_settings(options: BenchmarkOptions) -> KnownSettings:
    """The settings of a row that are known before anything runs."""

    def settings(model: Model, runtime: Runtime) -> Settings:
        return rounds_settings(model, runtime, options.rounds, options.warmup, options.load.execution)

    return settings


def _measured(opened: OpenUnit, prepared: Prepared, runtime: Runtime, options: BenchmarkOptions) -> BenchmarkResult:
    target = opened.planner.target(prepared, runtime, options.load.memory)
    loaded = load_model(opened, prepared, runtime, target, options.load)
    opened.write_inputs(TestData(prepared, {}).inputs)
    session = opened.session
    warm_up = _warm_up(opened, options.warmup)
    deadline_s = rounds_deadline_s(options.rounds, max(warm_up) / NS_PER_MS)

    def rounds() -> tuple[RunAnswer, TimedRounds]:
        plain = session.run(options.rounds, deadline_s)
        return plain, profile(session, options.rounds, len(loaded.plan.steps), deadline_s)

    (plain, timed), throttling = opened.cool(rounds)
    return BenchmarkResult(
        device_model=opened.device_model,
        provenance=provenance_of(opened, loaded),
        throttling=throttling.with_waits(waited_share([plain])),
        load=LoadFigures(
            init_ms=loaded.answer.init_ms,
            memory_bytes=loaded.answer.memory,
            tuned=loaded.answer.tuned_use,
            kernels=loaded.answer.kernels_use,
            selection=loaded.planned.use,
            **dict(execution_figures(loaded.answer, loaded.execution, plain, peak_memory(opened, runtime))),
        ),
        plain=PlainRounds.of(warm_up, plain.wall_ns),
        profiled=profiled_rounds(
            loaded.plan.steps, timed.steps, timed.wall_ns, loaded.plan.contents, timed.timed_by_host
        ),
    )


def _warm_up(opened: OpenUnit, rounds: int) -> list[float]:
    """Wall time of each round that warms the unit up, one at least: the first one sets the deadline of the others."""
    first = opened.first_round().wall_ns
    if rounds <= 1:
        return first
    deadline_s = rounds_deadline_s(rounds - 1, first[0] / NS_PER_MS)
    return [*first, *opened.session.run(rounds - 1, deadline_s).wall_ns]


@dataclasses.dataclass(frozen=True)
class TimedRounds:
    """Times of each step, and the wall time of each round; `timed_by_host` as in a BenchmarkRow."""

    steps: list[StepTimes]
    wall_ns: list[float]
    timed_by_host: str


def profile(session: Session, rounds: int, steps: int, deadline_s: float) -> TimedRounds:
    """Rounds whose steps are timed; many are asked for in parts, to keep answers short."""
    part = max(1, MAX_TIMES_IN_ANSWER // max(1, steps))
    counts = [min(part, rounds - start) for start in range(0, rounds, part)]
    answers = [session.run(count, deadline_s, profile=True) for count in counts]
    times = [
        StepTimes(
            start_ns=parts[-1].start_ns,
            first_ns=parts[0].first_ns,
            ns=tuple(sample_ns for step in parts for sample_ns in step.ns),
        )
        for parts in zip(*(answer.steps for answer in answers), strict=True)
    ]
    wall_ns = [sample_ns for answer in answers for sample_ns in answer.wall_ns]
    return TimedRounds(times, wall_ns, answers[0].timed_by_host)
