"""`farm run`: every model on every unit and runtime, timed and validated."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from farm import atomic_file
from farm.config.deployment import FARMRT, Deployment, Model, Runtime
from farm.config.execution import DEFAULT, Execution
from farm.config.inventory import Unit
from farm.engines.base import EngineModel
from farm.engines.registry import NamedEngine, named_engines
from farm.farmrt.answers import RunAnswer, waited_share
from farm.jobs.engines.lanes import engine_figures, engine_provenance, engine_validation
from farm.jobs.engines.ready import EngineModels, ready_engine, runtimes_of
from farm.jobs.example import ExampleModel, run_example
from farm.jobs.fleet.dispatch import FLEET, FleetOptions
from farm.jobs.fleet.execution import execution_figures, measured_placement, peak_memory, placement_of
from farm.jobs.fleet.job_rows import KnownSettings, Settings, rows_of_measures
from farm.jobs.fleet.progress import SILENT, ProgressView
from farm.jobs.fleet.round_limit import rounds_deadline_s
from farm.jobs.fleet.unit import OpenUnit
from farm.jobs.further import judge_further
from farm.jobs.loading import LoadedModel, LoadOptions, load_model, provenance_of, ready_model
from farm.jobs.models.prepare import Failed, Prepared, TestData, given_inputs, prepare_all, validation_data
from farm.jobs.samples import OnUnit, Samples, run_samples
from farm.jobs.validate import Validation, compare_layers, compare_with_reference, thresholds_for, with_half_range
from farm.rows.execution import ExecutionFigures
from farm.rows.latency import Latency
from farm.rows.run import Placement, RunFigures, RunResult, RunRow
from farm.workspace import file_part
from runtime.errors import ConfigError
from runtime.graph import Array
from runtime.oracle.evaluate import evaluate

NS_PER_MS = 1e6


@dataclasses.dataclass(frozen=True)
class RunOptions:
    """What `farm run` was asked for."""

    rounds: int = 10
    warmup: int = 1
    validate: bool = False
    layers: bool = False
    inputs: tuple[str, ...] = ()
    output_folder: Path | None = None
    load: LoadOptions = dataclasses.field(default_factory=LoadOptions)
    input_folder: Path | None = None  # many samples, each of which runs once
    example: bool = False  # the example application of the C API runs the model in place of farmrt
    engines: tuple[str, ...] = ()  # none: those of the deployment file

    def __post_init__(self) -> None:
        if self.example and (self.layers or self.input_folder):
            other = "--layers" if self.layers else "--input_dir"
            raise ConfigError(f"--example runs one input once through the C API, without {other}")
        if self.input_folder and (self.inputs or self.layers):
            other = "--input" if self.inputs else "--layers"
            raise ConfigError(f"--input_dir runs over many samples, {other} is for one; name one of the two")
        named_engines(self.engines)

    def lanes(self, model: Model) -> list[tuple[Runtime, str]]:
        """The runtimes and engines that a model runs in; ConfigError for a word that is no engine.

        So it is where another than farmrt is asked for what it cannot do.
        """
        wanted = named_engines(self.engines or model.engine)
        own = {"--layers": self.layers, "--input_dir": self.input_folder, "--example": self.example}
        others = [engine for engine in wanted if engine != FARMRT]
        for option in (option for option, given in own.items() if given and others):
            raise ConfigError(f"{option} is for farmrt alone, and the engine {others[0]} is asked for")
        return [(runtime, engine) for engine in wanted for runtime in runtimes_of(engine, model, is_named=True)]

    @property
    def compares(self) -> bool:
        """Whether the run compares its outputs with the oracle's."""
        return self.validate or self.layers or self.example


@dataclasses.dataclass(frozen=True)
class RoundTimes:
    """Wall times of rounds: of the first one since the model was loaded, and of the measured ones in order.

    `answer` is what farmrt said of those.
    """

    first_ms: float
    samples_ms: tuple[float, ...]
    answer: RunAnswer


def run_job(
    deployment: Deployment,
    units: Sequence[Unit],
    options: RunOptions,
    fleet: FleetOptions = FLEET,
    progress: ProgressView = SILENT,
) -> Iterator[RunRow]:
    """A row for each unit, model and runtime."""
    models = prepare_all(deployment, options.compares, progress.here)
    prepared = [model for model in models if isinstance(model, Prepared)]
    folder = options.input_folder
    samples = {each.name: Samples(each, folder, options.validate) for each in prepared if folder}
    data = {each.name: _test_data(each, options) for each in prepared if not folder}

    def measure(opened: OpenUnit, model: Prepared, runtime: Runtime) -> RunResult:
        if folder:
            return _sampled(opened, model, runtime, samples[model.name], options)
        if options.example:
            return _example(opened, model, runtime, data[model.name], options)
        return _measured(opened, model, runtime, data[model.name], options)

    def in_engine(engine: str, opened: OpenUnit, model: Prepared, runtime: Runtime) -> RunResult:
        return _in_engine(opened, engine, model, engine_models.of(model), runtime, data[model.name], options)

    with TemporaryDirectory() as scratch:
        engine_models = EngineModels(Path(scratch))
        each = [
            (model, runtime, engine, measure if engine == FARMRT else functools.partial(in_engine, engine))
            for model in models
            for runtime, engine in _lanes(model, options)
        ]
        yield from rows_of_measures(RunRow, each, units, run_settings(options), fleet, progress)


def _lanes(model: Prepared | Failed, options: RunOptions) -> list[tuple[Runtime, str]]:
    """What a model runs in; a mistake is told with its place in the deployment file."""
    try:
        return options.lanes(model.settings)
    except ConfigError as error:
        raise model.deployment.error(("models", model.name, "engine"), str(error)) from None


def run_settings(options: RunOptions) -> KnownSettings:
    """The settings of a row that are known before anything runs."""

    def settings(model: Model, runtime: Runtime) -> Settings:
        if folder := options.input_folder:
            return {**rounds_settings(model, runtime, 1, 0, options.load.execution), "input_dir": str(folder)}
        known = rounds_settings(model, runtime, options.rounds, options.warmup, options.load.execution)
        return {**known, "example": True} if options.example else known

    return settings


def _test_data(prepared: Prepared, options: RunOptions) -> TestData:
    given = given_inputs(options.inputs, prepared.inputs)
    return validation_data(prepared, given)


def rounds_settings(
    settings: Model, runtime: Runtime, rounds: int, warmup: int, execution: Execution = DEFAULT
) -> Settings:
    """Settings of a row that are known before anything runs, for a job that measures rounds."""
    return {
        "rounds": rounds,
        "warmup": warmup,
        "data_type": settings.data_type_on(runtime),
        "winograd": settings.winograd,
        "limit_opencl_kernel_time": settings.limit_opencl_kernel_time,
        **execution.over(settings.execution).given,
    }


def _measured(opened: OpenUnit, prepared: Prepared, runtime: Runtime, data: TestData, options: RunOptions) -> RunResult:
    target = opened.planner.target(prepared, runtime, options.load.memory)
    loaded = load_model(opened, prepared, runtime, target, options.load)
    opened.write_inputs(data.inputs)
    times, throttling = opened.cool(lambda: run_rounds(opened, options.rounds, options.warmup))
    provenance = provenance_of(opened, loaded)
    executed = execution_figures(loaded.answer, loaded.execution, times.answer, peak_memory(opened, runtime))
    placement = measured_placement(opened, loaded.plan.steps, times.first_ms)
    validation = _validated(opened, loaded, data, options)
    return RunResult(
        ending=validation.ending,
        device_model=opened.device_model,
        provenance=provenance,
        throttling=throttling.with_waits(waited_share([times.answer])),
        figures=_figures(loaded, times.first_ms, Latency.of(times.samples_ms), executed, placement),
        comparison=validation.comparison,
    )


def _sampled(
    opened: OpenUnit, prepared: Prepared, runtime: Runtime, samples: Samples, options: RunOptions
) -> RunResult:
    """The result of a model over many samples."""
    target = opened.planner.target(prepared, runtime, options.load.memory)
    loaded = load_model(opened, prepared, runtime, target, options.load)
    provenance = provenance_of(opened, loaded)
    load, folder = loaded.keeping(opened), options.output_folder
    on_unit = OnUnit(opened, prepared, runtime, loaded.plan, provenance.hashes, folder, load)
    run = run_samples(on_unit, samples)
    executed = execution_figures(loaded.answer, loaded.execution, memory=peak_memory(opened, runtime))
    return RunResult(
        ending=run.validation.ending,
        device_model=opened.device_model,
        provenance=provenance,
        throttling=run.throttling,
        figures=_figures(loaded, run.first_ms, run.latency, executed),
        comparison=run.validation.comparison.model_copy(update={"samples": run.report}),
    )


def _example(opened: OpenUnit, prepared: Prepared, runtime: Runtime, data: TestData, options: RunOptions) -> RunResult:
    """The result of a model that the example application ran."""
    target = opened.planner.target(prepared, runtime, options.load.memory)
    ready = ready_model(opened, prepared, runtime, target, options.load)
    model = ready.model
    wanted = ExampleModel(model.plan, model.plan_file, model.tuned, ready.chosen.file, data.inputs, model.limited)
    run, throttling = opened.cool(lambda: run_example(opened, wanted, options.rounds, options.warmup))
    loaded = ready.loaded(runtime, run.answer)
    validation = _compared(opened, loaded, data, run.outputs, options)
    return RunResult(
        ending=validation.ending,
        device_model=opened.device_model,
        provenance=provenance_of(opened, loaded),
        throttling=throttling,
        figures=_figures(loaded, run.first_ms, Latency.of(run.samples_ms)),
        comparison=validation.comparison,
    )


def _in_engine(
    opened: OpenUnit,
    engine: str,
    prepared: Prepared,
    model: EngineModel,
    runtime: Runtime,
    data: TestData,
    options: RunOptions,
) -> RunResult:
    """The result of a model in another engine."""
    with ready_engine(opened, NamedEngine.of(engine), prepared, model, runtime, data, options.load.execution) as other:
        run, throttling = opened.cool(lambda: other.run(options.rounds, options.warmup))
        precision = other.precision
    if options.output_folder:
        _save(run.outputs, options.output_folder, f"{prepared.name}.{opened.unit.name}.{runtime}.{file_part(engine)}")
    compared = options.compares
    validation = engine_validation(engine, prepared, runtime, precision, data, run) if compared else Validation()
    return RunResult(
        ending=validation.ending,
        device_model=opened.device_model,
        provenance=engine_provenance(engine, run),
        throttling=throttling,
        figures=engine_figures(run, run.samples_ms),
        comparison=validation.comparison,
    )


def _figures(
    loaded: LoadedModel,
    first_ms: float,
    latency: Latency,
    executed: ExecutionFigures | None = None,
    placement: Placement | None = None,
) -> RunFigures:
    answer = loaded.answer
    return RunFigures(
        init_ms=answer.init_ms,
        first_ms=first_ms,
        latency_ms=latency,
        memory_bytes=answer.memory,
        tuned=answer.tuned_use,
        kernels=answer.kernels_use,
        selection=loaded.planned.use,
        placement=placement or placement_of(loaded.plan.steps),
        **dict(executed or ()),
    )


def run_rounds(opened: OpenUnit, rounds: int, warmup: int) -> RoundTimes:
    """Runs the loaded model. The very first round is run apart: it sets the deadline of the others."""
    first = opened.first_round()
    deadline_s = rounds_deadline_s(rounds + warmup, first.wall_ns[0] / NS_PER_MS)
    measured = opened.session.run(rounds, deadline_s, warmup)
    samples_ms = tuple(sample_ns / NS_PER_MS for sample_ns in measured.wall_ns)
    return RoundTimes(first.very_first_ms, samples_ms, measured)


def _validated(opened: OpenUnit, loaded: LoadedModel, data: TestData, options: RunOptions) -> Validation:
    """Reads the outputs, keeps them where that is wanted, compares them where that is wanted."""
    if not (options.compares or options.output_folder):
        return Validation()
    return _compared(opened, loaded, data, opened.read_outputs(loaded.plan), options)


def _compared(
    opened: OpenUnit, loaded: LoadedModel, data: TestData, outputs: Mapping[str, Array], options: RunOptions
) -> Validation:
    if options.output_folder:
        _save(outputs, options.output_folder, f"{loaded.prepared.name}.{opened.unit.name}.{loaded.runtime}")
    if not options.compares:
        return Validation()
    precision = loaded.plan.target.precision
    validation = compare_with_reference(loaded.prepared, loaded.runtime, precision, lambda: data.expected, outputs)
    if options.layers:
        validation = _with_layers(opened, loaded, data, options.load, validation)
    validation = with_half_range(validation, loaded.plan.target, data)
    if options.example:
        return validation
    still_there = None if options.layers else loaded.plan
    return judge_further(opened, loaded.prepared, data, validation, loaded.keeping(opened), still_there)


def _with_layers(
    opened: OpenUnit, loaded: LoadedModel, data: TestData, options: LoadOptions, validation: Validation
) -> Validation:
    """Compares every operator's output with NumPy's in one run of a plan that keeps them all."""
    prepared, runtime = loaded.prepared, loaded.runtime
    with_layers = load_model(opened, prepared, runtime, loaded.plan.target, options, keep=prepared.graph.layers)
    opened.write_inputs(data.inputs)
    opened.first_round()
    outputs = opened.read_outputs(with_layers.plan)
    expected = evaluate(prepared.graph, data.inputs)
    return compare_layers(prepared.graph, expected, outputs, thresholds_for(prepared, loaded.plan.target), validation)


def _save(outputs: Mapping[str, Array], folder: Path, prefix: str) -> None:
    for name, value in outputs.items():
        with atomic_file.replacing(folder / f"{prefix}.{file_part(name)}.npy") as file:
            np.save(file, value)
