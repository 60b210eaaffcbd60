"""Brings a converted model to a unit and loads it there, with the artifacts of tuning that fit it."""

import dataclasses
import logging
from pathlib import Path

from farm.config.deployment import Runtime
from farm.config.execution import DEFAULT, Execution
from farm.farmrt.answers import LoadAnswer
from farm.jobs.choices.model_choice import DEFAULT_PLAN, ModelChoice, PlannedChoice, choice_of_files
from farm.jobs.fleet import kernel_trial, refused_kernels
from farm.jobs.fleet.plan_files import given_operators, write_plan
from farm.jobs.fleet.unit import OpenUnit
from farm.jobs.further import LoadKeeping, keeping
from farm.jobs.models import plans
from farm.jobs.models.cpu_choice import CpuChoice, with_choice
from farm.jobs.models.prepare import Prepared, plan_data_type
from farm.rows.row import Provenance, row_fingerprint
from farm.workspace import data_file
from runtime.errors import ConfigError
from runtime.plan.plan import Plan
from runtime.target import Target

LOG = logging.getLogger("farm.jobs")

NO_ARTIFACT = Path("none")


@dataclasses.dataclass(frozen=True)
class LoadOptions:
    """How a model is loaded.

    `tuned`, `kernels` and `selection` are a file, NO_ARTIFACT, or None for those of the build folder. `execution` goes
    before what the deployment file says.
    """

    tuned: Path | None = None
    kernels: Path | None = None
    memory: str | None = None
    execution: Execution = DEFAULT
    selection: Path | None = None


def with_existing_files(options: LoadOptions) -> LoadOptions:
    """The options, before any work; raises ConfigError where a file that they name is not there."""
    for option, file in (
        ("--tuned", options.tuned),
        ("--kernels", options.kernels),
        ("--selection", options.selection),
    ):
        if file and file != NO_ARTIFACT:
            _existing(file, option)
    return options


@dataclasses.dataclass(frozen=True)
class LoadedModel:
    """A model loaded on a unit, and farmrt's answer to that.

    `given_kernels` are those that were to be loaded, `kernels` those that were: None where they failed their trial.
    """

    prepared: Prepared
    runtime: Runtime
    plan: Plan
    plan_file: Path
    tuned: Path | None
    given_kernels: Path | None
    kernels: Path | None
    execution: Execution
    answer: LoadAnswer
    planned: PlannedChoice = DEFAULT_PLAN
    cpu: CpuChoice | None = None

    def keeping(self, opened: OpenUnit) -> LoadKeeping:
        """Loads the model as it was, with further tensors among its outputs."""
        files, target = (self.tuned, self.kernels), self.plan.target
        return keeping(opened, self.prepared, target, self.planned.choice, files, self.cpu, self.execution)


def load_model(
    opened: OpenUnit,
    prepared: Prepared,
    runtime: Runtime,
    target: Target,
    options: LoadOptions,
    keep: tuple[str, ...] = (),
) -> LoadedModel:
    """Brings a model to the unit and loads it, with the artifacts of the build folder unless others are named.

    Where the GPU's driver does not build a kernel, the plan is made anew without it.
    """

    def make() -> _LoweredModel:
        return _lowered_model(opened, prepared, runtime, opened.planner.without_refused(target), options, keep)

    def use(model: _LoweredModel) -> LoadedModel:
        ready = model.with_kernels(options)
        return ready.loaded(runtime, model.load(kernels=ready.chosen.file))

    return use(make()) if runtime == "cpu" else refused_kernels.used_without(opened, make, use)


@dataclasses.dataclass(frozen=True)
class ReadyModel:
    """A model with the files that it can be loaded with."""

    model: kernel_trial.TriedModel
    given_kernels: Path | None
    chosen: kernel_trial.ChosenKernels
    execution: Execution
    planned: PlannedChoice = DEFAULT_PLAN
    cpu: CpuChoice | None = None

    def loaded(self, runtime: Runtime, answer: LoadAnswer) -> LoadedModel:
        """Returns the loaded model: this one with farmrt's answer and the kernels that it took."""
        model = self.model
        parts = (model.prepared, runtime, model.plan, model.plan_file, model.tuned)
        told = self.chosen.told(answer)
        return LoadedModel(*parts, self.given_kernels, self.chosen.file, self.execution, told, self.planned, self.cpu)


@dataclasses.dataclass(frozen=True)
class _LoweredModel:
    """A model on a unit, before its compiled kernels were tried there."""

    opened: OpenUnit
    model: kernel_trial.TriedModel
    kernels: Path | None
    way: ModelChoice
    execution: Execution

    @property
    def plan(self) -> Plan:
        return self.model.plan

    @property
    def tuned(self) -> Path | None:
        return self.model.tuned

    def with_kernels(self, options: LoadOptions) -> ReadyModel:
        """The model with the compiled kernels that it may be loaded with; raises JobError."""
        model, planned = self.model, self.way.planned
        chosen = kernel_trial.choose(self.opened, model, self.kernels, put_aside=options.kernels is None)
        files = f"tuned parameters: {model.tuned or 'none'}, compiled kernels: {chosen.file or 'none'}"
        where = f"{model.prepared.name} ({'cpu' if self.plan.target.memory == 'cpu' else 'gpu'})"
        LOG.info("%s: %s: %s, selection: %s", self.opened.unit.name, where, files, planned.file or "none")
        return ReadyModel(model, self.kernels, chosen, self.execution, planned, self.way.cpu)

    def load(self, lazy: bool = False, kernels: Path | None = None) -> LoadAnswer:
        model, limit_s = self.model, self.model.prepared.settings.round_limit
        files, told = (model.plan_file, model.tuned, kernels), {"refused_kernels": sorted(self.plan.target.refused)}
        answer = self.opened.load(*files, model.limited, lazy=lazy, round_limit_s=limit_s, execution=self.execution)
        return answer.model_copy(update=told)


def ready_model(
    opened: OpenUnit, prepared: Prepared, runtime: Runtime, target: Target, options: LoadOptions
) -> ReadyModel:
    """Lowers a model, and finds the files of tuning that fit it, for a process that cannot tell why it ends.

    So a GPU's model is loaded here once, which shows what the driver refuses, and unloaded.
    """

    def make() -> _LoweredModel:
        return _lowered_model(opened, prepared, runtime, opened.planner.without_refused(target), options)

    def use(model: _LoweredModel) -> ReadyModel:
        ready = model.with_kernels(options)
        model.load(kernels=ready.chosen.file)
        opened.session.command("unload")
        return ready

    return make().with_kernels(options) if runtime == "cpu" else refused_kernels.used_without(opened, make, use)


def _lowered_model(
    opened: OpenUnit,
    prepared: Prepared,
    runtime: Runtime,
    target: Target,
    options: LoadOptions,
    keep: tuple[str, ...] = (),
) -> _LoweredModel:
    way = _way(opened, prepared, runtime, target, options)
    choice, cpu = way.planned.choice, way.cpu
    plan, plan_file = opened.planner.plan(prepared, runtime, way.target(target), keep, choice, cpu=cpu)
    if not keep:
        plan = plans.sharing(plan, prepared, lambda sibling: _lowered(opened, sibling, runtime, options))
    tuned, kernels = _artifacts(opened, prepared.deployment.library_name, runtime, options)
    write_plan(plan, plan_file)
    execution = with_choice(options.execution.over(prepared.settings.execution), cpu)
    return _LoweredModel(opened, kernel_trial.TriedModel(prepared, plan, plan_file, tuned), kernels, way, execution)


def _lowered(opened: OpenUnit, prepared: Prepared, runtime: Runtime, options: LoadOptions) -> Plan:
    """The plan of a model that would be loaded so."""
    target = opened.planner.target(prepared, runtime, options.memory)
    way = _way(opened, prepared, runtime, target, options)
    return opened.planner.plan(prepared, runtime, way.target(target), choice=way.planned.choice, cpu=way.cpu)[0]


def _way(opened: OpenUnit, prepared: Prepared, runtime: Runtime, target: Target, options: LoadOptions) -> ModelChoice:
    cpu = None if options.tuned == NO_ARTIFACT else opened.planner.cpu_choice(prepared, runtime)
    return ModelChoice(_planned(opened, prepared, runtime, target, options), cpu)


def _planned(
    opened: OpenUnit, prepared: Prepared, runtime: Runtime, target: Target, options: LoadOptions
) -> PlannedChoice:
    """The choice that the plan is made by: of the file that the user named, else the one that tuning kept."""
    if options.selection == NO_ARTIFACT:
        return DEFAULT_PLAN
    if options.selection is None:
        return opened.planner.choice_in_force(prepared, runtime, target, options.memory)
    named = _artifact(options.selection, options.selection, "--selection")
    return choice_of_files([named] if named else [], prepared, runtime, target, is_named=True)


def provenance_of(opened: OpenUnit, loaded: LoadedModel) -> Provenance:
    """What a loaded model's result is made with."""
    files = {
        "plan": loaded.plan_file,
        "weights": data_file(loaded.plan_file),
        "tuned": loaded.tuned,
        "kernels": loaded.kernels,
        "selection": loaded.planned.file,
        **given_operators(loaded.plan_file),
    }
    return Provenance(
        hashes=opened.hashes({role: path for role, path in files.items() if path}),
        fingerprint=row_fingerprint(loaded.plan.target),
        settings={
            "data_type": plan_data_type(loaded.plan),
            "memory": loaded.plan.target.memory,
            "opencl_library": "" if loaded.runtime == "cpu" else opened.opencl_library,
            "tuned_file": str(loaded.tuned or ""),
            "kernels_file": str(loaded.given_kernels or ""),
            "selection_file": str(loaded.planned.file or ""),
            "round_limit_s": opened.round_limit_s,
        },
    )


def _artifacts(
    opened: OpenUnit, library: str, runtime: Runtime, options: LoadOptions
) -> tuple[Path | None, Path | None]:
    """The tuned parameters and compiled kernels to load; a CPU runtime uses neither."""
    if runtime == "cpu":
        return None, None
    tuned, kernels = opened.planner.artifact_files(library)
    return _artifact(options.tuned, tuned, "--tuned"), _artifact(options.kernels, kernels, "--kernels")


def _artifact(named: Path | None, built: Path, option: str) -> Path | None:
    """The file that the user named, else the one that tuning built, if there is one."""
    if named == NO_ARTIFACT:
        return None
    if named is None:
        return built if built.is_file() else None
    return _existing(named, option)


def _existing(named: Path, option: str) -> Path:
    if not named.is_file():
        raise ConfigError(f"{option} {named}: no such file; `{option} none` runs without")
    return named
