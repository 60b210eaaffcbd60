"""`farm run`: every model on every unit and runtime, timed and validated."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from farm import atomic_file
from farm.config.deployment import Deployment, Model, Runtime
from farm.config.execution import DEFAULT, Execution
from farm.config.inventory import Unit
from farm.farmrt.answers import LoadAnswer, RunAnswer
from farm.jobs.fleet.dispatch import FLEET, FleetOptions
from farm.jobs.fleet.execution import execution_figures, peak_memory
from farm.jobs.fleet.job_rows import Settings, rows_of_each
from farm.jobs.fleet.progress import SILENT, ProgressView
from farm.jobs.fleet.unit import OpenUnit, rounds_deadline_s, write_plan
from farm.jobs.models.prepare import Prepared, TestData, given_inputs, prepare_all
from farm.jobs.validate import Validation, compare_layers, compare_outputs, thresholds_for, with_half_range
from farm.model import fetch
from farm.rows.latency import Latency
from farm.rows.row import Provenance, row_fingerprint
from farm.rows.run import RunFigures, RunResult, RunRow
from farm.workspace import Workspace, data_file, file_part
from runtime.errors import ConfigError
from runtime.evaluate import evaluate
from runtime.plan.plan import Plan
from runtime.target import Target

Array = npt.NDArray[Any]

LOG = logging.getLogger("farm.jobs")
NS_PER_MS = 1e6
NO_ARTIFACT = Path("none")


@dataclasses.dataclass(frozen=True)
class LoadOptions:
    """How a model is loaded. `tuned` and `kernels`: a file, NO_ARTIFACT, or None for those of the build folder.

    `execution` goes before what the deployment file says.
    """

    tuned: Path | None = None
    kernels: Path | None = None
    memory: str | None = None
    execution: Execution = DEFAULT


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

    @property
    def compares(self) -> bool:
        """Whether outputs are compared with the oracle's."""
        return self.validate or self.layers


@dataclasses.dataclass(frozen=True)
class Loaded:
    """A model loaded on a unit, and farmrt's answer to that."""

    prepared: Prepared
    runtime: Runtime
    plan: Plan
    plan_file: Path
    answer: LoadAnswer
    workspace: Workspace
    execution: Execution


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
    models = prepare_all(deployment, check=options.compares)
    data = {model.name: _test_data(model, options) for model in models if isinstance(model, Prepared)}

    def measure(opened: OpenUnit, prepared: Prepared, runtime: Runtime) -> RunResult:
        return _measured(opened, prepared, runtime, data[prepared.name], options)

    def settings(model: Model, runtime: Runtime) -> Settings:
        return rounds_settings(model, runtime, options.rounds, options.warmup, options.load.execution)

    yield from rows_of_each(RunRow, models, units, measure, settings, fleet, progress)


def _test_data(prepared: Prepared, options: RunOptions) -> TestData:
    given = given_inputs(options.inputs, prepared.inputs)
    return TestData(prepared, fetch.Fetcher(prepared.deployment).validation_inputs(prepared.name) | given)


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
    target = opened.target(prepared, runtime, options.load.memory)
    loaded = load_model(opened, prepared, runtime, target, options.load)
    opened.write_inputs(data.inputs)
    times, throttling = opened.cool(lambda: run_rounds(opened, options.rounds, options.warmup))
    provenance = provenance_of(opened, loaded, options.load)
    memory = peak_memory(opened, runtime)
    validation = _validated(opened, loaded, data, options)
    return RunResult(
        ending=validation.ending,
        device_model=opened.device_model,
        provenance=provenance,
        throttling=throttling,
        figures=RunFigures(
            init_ms=loaded.answer.init_ms,
            first_ms=times.first_ms,
            latency_ms=Latency.of(times.samples_ms),
            memory_bytes=loaded.answer.memory,
            tuned=loaded.answer.tuned_use,
            kernels=loaded.answer.kernels_use,
            **dict(execution_figures(loaded.answer, loaded.execution, times.answer, memory)),
        ),
        comparison=validation.comparison,
    )


def load_model(
    opened: OpenUnit,
    prepared: Prepared,
    runtime: Runtime,
    target: Target,
    options: LoadOptions,
    keep_layers: bool = False,
) -> Loaded:
    """Brings a model to the unit and loads it, with the artifacts of the build folder unless others are named."""
    workspace = Workspace(prepared.deployment.library_name)
    plan, plan_file = opened.plan(prepared, runtime, target, keep_layers)
    tuned, kernels = _artifacts(opened, workspace, runtime, options)
    files = f"tuned parameters: {tuned or 'none'}, compiled kernels: {kernels or 'none'}"
    LOG.info("%s: %s (%s): %s", opened.unit.name, prepared.name, runtime, files)
    write_plan(plan, plan_file)
    limited = prepared.settings.limit_opencl_kernel_time
    execution = options.execution.over(prepared.settings.execution)
    answer = opened.load(plan_file, tuned, kernels, limited, execution=execution)
    return Loaded(prepared, runtime, plan, plan_file, answer, workspace, execution)


def provenance_of(opened: OpenUnit, loaded: Loaded, options: LoadOptions) -> Provenance:
    """What a loaded model's result is made with."""
    tuned, kernels = _artifacts(opened, loaded.workspace, loaded.runtime, options)
    files = {"plan": loaded.plan_file, "weights": data_file(loaded.plan_file), "tuned": tuned, "kernels": kernels}
    return Provenance(
        hashes=opened.hashes({role: path for role, path in files.items() if path}),
        fingerprint=row_fingerprint(loaded.plan.target),
        settings={
            "memory": loaded.plan.target.memory,
            "opencl_library": "" if loaded.runtime == "cpu" else opened.opencl_library,
            "tuned_file": str(tuned or ""),
            "kernels_file": str(kernels or ""),
        },
    )


def _artifacts(
    opened: OpenUnit, workspace: Workspace, runtime: Runtime, options: LoadOptions
) -> tuple[Path | None, Path | None]:
    """The tuned parameters and compiled kernels to load; a CPU runtime uses neither."""
    if runtime == "cpu":
        return None, None
    names = (opened.unit.abi, opened.device_model, opened.unit.soc)
    tuned = _artifact(options.tuned, workspace.tuned_file(*names), "--tuned")
    return tuned, _artifact(options.kernels, workspace.kernels_file(*names), "--kernels")


def _artifact(named: Path | None, built: Path, option: str) -> Path | None:
    """The file that the user named, else the one that tuning built, if there is one."""
    if named == NO_ARTIFACT:
        return None
    if named is None:
        return built if built.is_file() else None
    if not named.is_file():
        raise ConfigError(f"{option} {named}: no such file; `{option} none` runs without")
    return named


def run_rounds(opened: OpenUnit, rounds: int, warmup: int) -> RoundTimes:
    """Runs the loaded model. The very first round is run apart: it sets the deadline of the others."""
    first = opened.first_round()
    deadline_s = rounds_deadline_s(rounds + warmup, first.wall_ns[0] / NS_PER_MS)
    measured = opened.session.run(rounds, deadline_s, warmup)
    samples_ms = tuple(sample_ns / NS_PER_MS for sample_ns in measured.wall_ns)
    return RoundTimes(first.very_first_ms, samples_ms, measured)


def _validated(opened: OpenUnit, loaded: Loaded, data: TestData, options: RunOptions) -> Validation:
    """Reads the outputs, keeps them where that is wanted, compares them where that is wanted."""
    if not (options.compares or options.output_folder):
        return Validation()
    outputs = opened.read_outputs(loaded.plan)
    if options.output_folder:
        _save(outputs, options.output_folder, f"{loaded.prepared.name}.{opened.unit.name}.{loaded.runtime}")
    if not options.compares:
        return Validation()
    validation = compare_outputs(loaded.prepared, loaded.runtime, data.expected, outputs)
    if options.layers:
        validation = _with_layers(opened, loaded, data, options.load, validation)
    return with_half_range(validation, loaded.plan.target.precision, data)


def _with_layers(
    opened: OpenUnit, loaded: Loaded, data: TestData, options: LoadOptions, validation: Validation
) -> Validation:
    """Compares every operator's output with NumPy's in one run of a plan that keeps them all."""
    prepared, runtime = loaded.prepared, loaded.runtime
    with_layers = load_model(opened, prepared, runtime, loaded.plan.target, options, keep_layers=True)
    opened.write_inputs(data.inputs)
    opened.first_round()
    outputs = opened.read_outputs(with_layers.plan)
    expected = evaluate(prepared.graph, data.inputs)
    return compare_layers(prepared.graph, expected, outputs, thresholds_for(prepared, runtime), validation)


def _save(outputs: Mapping[str, Array], folder: Path, prefix: str) -> None:
    for name, value in outputs.items():
        with atomic_file.replacing(folder / f"{prefix}.{file_part(name)}.npy") as file:
            np.save(file, value)
