"""`farm tune`: search, artifacts, and the proof that they are used and what they gain."""

from __future__ import annotations

import dataclasses
import math
import threading
from collections.abc import Iterator, Sequence
from weakref import WeakKeyDictionary

from farm.config.deployment import Deployment, Model, Runtime
from farm.config.execution import DEFAULT, Execution
from farm.config.inventory import Unit
from farm.jobs.compare.interleaved import TunedFiles
from farm.jobs.fleet import kernel_trial
from farm.jobs.fleet.dispatch import FLEET, FleetOptions
from farm.jobs.fleet.job_rows import Settings, rows_of_each
from farm.jobs.fleet.per_unit import PerUnit
from farm.jobs.fleet.progress import SILENT, ProgressView
from farm.jobs.fleet.refused_kernels import is_refusal
from farm.jobs.fleet.unit import OpenUnit
from farm.jobs.loading import NO_ARTIFACT, LoadOptions, load_model
from farm.jobs.models.prepare import Prepared, plan_data_type, prepare_all
from farm.jobs.tune.collect import Destination
from farm.jobs.tune.cpu import tune_cpu
from farm.jobs.tune.layer_times import time_layers
from farm.jobs.tune.proof import Proof, gain_figures, run_figures
from farm.jobs.tune.publication import Publication, prove_and_publish
from farm.jobs.tune.repeatability import agreements
from farm.jobs.tune.schedule import TuningSchedule
from farm.jobs.tune.search import ModelTuning, SearchOptions, search_models
from farm.jobs.tune.selecting import ChoiceOnce
from farm.jobs.tune.shared_search import SharedSearch
from farm.jobs.tune.trials import TrialPlans
from farm.rows.row import Provenance, row_fingerprint
from farm.rows.run import NoFile, RunFigures, SelectionUse
from farm.rows.tune import BuildAheadFigures, TuneFigures, TuneOutcome, TuneResult, TuneRow, TuningAgreement
from farm.workspace import data_file
from runtime.errors import JobError

# Threads of Intel's driver for CPUs take work groups from each other. A candidate whose first launches found one awake
# too late keeps to one core as long as its process lives, and looks half as fast as in the next search. Candidates are
# timed with equal shares; the processes of a proof run as models do.
SEARCH_ENVIRONMENT = {"DPCPP_CPU_SCHEDULE": "static"}


@dataclasses.dataclass(frozen=True)
class TuneOptions:
    """What `farm tune` was asked for; `repeat`: how often it searches, to see whether the searches agree."""

    search: SearchOptions
    execution: Execution = DEFAULT
    repeat: int = 1

    def settings(self, settings: Model, runtime: Runtime) -> Settings:
        """Settings of a row that are known before anything runs."""
        return {
            "level": self.search.level,
            "budget_s": self.search.device_s if math.isfinite(self.search.device_s) else None,
            "data_type": settings.data_type_on(runtime),
            "winograd": settings.winograd,
            "limit_opencl_kernel_time": settings.limit_opencl_kernel_time,
            **settings.execution.given,
        }


def tune_job(
    deployments: Sequence[Deployment],
    units: Sequence[Unit],
    options: TuneOptions,
    fleet: FleetOptions = FLEET,
    progress: ProgressView = SILENT,
) -> Iterator[TuneRow]:
    """A row for each unit, model and runtime.

    All models of a unit are searched together before its first row, and units with the same target search together.
    """
    for source in deployments:
        time_layers(source, units, options.execution, fleet, progress)
    prepared_models = [model for source in deployments for model in prepare_all(source, tell=progress.here)]
    models = [model.with_execution(options.execution) for model in prepared_models]
    prepared = [model for model in models if isinstance(model, Prepared) and "gpu" in model.settings.runtimes]
    tuning = _Tuning(prepared, options, len(units))
    after_refusals: WeakKeyDictionary[OpenUnit, _Tuning] = WeakKeyDictionary()
    searching = dataclasses.replace(fleet, environment={**SEARCH_ENVIRONMENT, **fleet.environment})

    def measure(opened: OpenUnit, model: Prepared, runtime: Runtime) -> TuneResult:
        if runtime == "cpu":
            return tune_cpu(opened, model, options.search.deadline())
        opened.planner.target(model, runtime, options.search.memory)  # what a unit cannot run is said before all else
        try:
            return after_refusals.get(opened, tuning).result(opened, model)
        except JobError as error:
            if not (is_refusal(error, opened) and _learns(opened, model, options.search.memory)):
                raise
        after_refusals[opened] = _Tuning(prepared, options, 1)
        return after_refusals[opened].result(opened, model)

    def measure_told(opened: OpenUnit, model: Prepared, runtime: Runtime) -> TuneResult:
        result = measure(opened, model, runtime)
        tuning = result.tuning.model_copy(update={"eight_bits": model.quantized})
        return dataclasses.replace(result, tuning=tuning)

    yield from rows_of_each(TuneRow, models, units, measure_told, options.settings, searching, progress)


def _learns(opened: OpenUnit, model: Prepared, memory: str | None) -> bool:
    """Whether loading the default plan, then what is in force, shows further kernels that the driver refuses."""
    opened.session.revive()
    target = opened.planner.target(model, "gpu", memory)
    for options in (LoadOptions(NO_ARTIFACT, NO_ARTIFACT, memory, selection=NO_ARTIFACT), LoadOptions(memory=memory)):
        load_model(opened, model, "gpu", target, options)
    return opened.planner.target(model, "gpu", memory).refused != target.refused


@dataclasses.dataclass
class _UnitSearches:
    """What the first search of all models found on a unit, with its schedule, and what further searches found."""

    schedule: TuningSchedule
    first: Sequence[ModelTuning]
    further: Sequence[Sequence[ModelTuning]] | None = None


class _Tuning:
    """The searches of a job and what they found.

    A library's artifacts are proved and published by the first unit of a fingerprint and device model.
    """

    def __init__(self, models: Sequence[Prepared], options: TuneOptions, units: int) -> None:
        self._models, self._options = models, options
        self._searches: list[SharedSearch[list[ModelTuning]]] = [SharedSearch(units) for _ in range(options.repeat)]
        self._searches_of = PerUnit(self._first_search)
        self._choices = [ChoiceOnce() for _ in range(options.repeat)]
        self._trial_plans = TrialPlans()
        self._published: dict[tuple[str, Destination], Publication] = {}
        self._publishing = threading.Lock()

    def result(self, opened: OpenUnit, model: Prepared) -> TuneResult:
        """What tuning a model gains; all models of the job are searched with the first."""
        tuned = _of_model(self._searches_of.of(opened).first, model)
        if not tuned.is_tuned:
            return self._not_tuned(opened, model, tuned)
        published = self._publish(opened, model)
        proof = published.proof(opened, tuned)
        further = [_of_model(searched, model) for searched in self._further_searches(opened)]
        agreed = agreements(opened, [tuned, *further], published.data[model.name])
        if proof.validation.is_ok and published.files.tuned and published.files.kernels:
            loaded = kernel_trial.TriedModel(model, tuned.plan, tuned.plan_file, published.files.tuned)
            kernel_trial.trust(opened, loaded, published.files.kernels)
        return TuneResult(
            ending=proof.ending,
            device_model=opened.device_model,
            provenance=_provenance(opened, tuned, published.files),
            throttling=proof.throttling,
            figures=RunFigures(
                **run_figures(proof.new, model.settings.execution),
                tuned=proof.new.load.tuned_use,
                kernels=proof.new.load.kernels_use,
                selection=self._selection(opened, model, tuned),
            ),
            comparison=proof.validation.comparison,
            tuning=_tune_figures(tuned, published.files, proof, agreed),
        )

    def _not_tuned(self, opened: OpenUnit, model: Prepared, tuned: ModelTuning) -> TuneResult:
        """Of a model of which nothing was tried: it is not run again, and what is in force stays."""
        figures = TuneFigures(
            outcome=TuneOutcome.NOT_TUNED,
            outcome_reason=tuned.untried,
            budget_needed_s=tuned.needed_s,
            launches=len({step.tuning_key for step in tuned.plan.steps if step.tuning_key}),
            trials=tuned.trials,
            device_s=tuned.device_s,
            choice=tuned.chosen.figures if tuned.chosen else None,
        )
        return TuneResult(
            device_model=opened.device_model,
            provenance=_provenance(opened, tuned, TunedFiles()),
            figures=RunFigures(selection=self._selection(opened, model, tuned)),
            tuning=figures,
        )

    def _selection(self, opened: OpenUnit, model: Prepared, tuned: ModelTuning) -> SelectionUse | NoFile:
        """The choice that is in force now."""
        return opened.planner.choice_in_force(model, "gpu", tuned.target, self._options.search.memory).use

    def _first_search(self, opened: OpenUnit) -> _UnitSearches:
        schedule = self._schedule()
        return _UnitSearches(schedule, self._search(opened, 0, schedule))

    def _search(self, opened: OpenUnit, number: int, schedule: TuningSchedule) -> list[ModelTuning]:
        shared, choices = self._searches[number], self._choices[number]
        return search_models(opened, self._models, self._options.search, shared, schedule, choices, self._trial_plans)

    def _further_searches(self, opened: OpenUnit) -> Sequence[Sequence[ModelTuning]]:
        """What the searches after the first found, which are made when the first is published."""
        of_unit = self._searches_of.of(opened)
        if of_unit.further is None:
            numbers = range(1, self._options.repeat)
            of_unit.further = [self._search(opened, number, self._schedule()) for number in numbers]
        return of_unit.further

    def _schedule(self) -> TuningSchedule:
        return TuningSchedule(self._options.search.deadline(len(self._models)), len(self._models))

    def _publish(self, opened: OpenUnit, model: Prepared) -> Publication:
        library, of_unit = model.deployment.library_name, self._searches_of.of(opened)
        of_library = [
            tuned for tuned in of_unit.first if tuned.is_tuned and tuned.prepared.deployment.library_name == library
        ]
        key = (library, Destination.of(opened, library, of_library[0]))
        with self._publishing:
            if key not in self._published:
                settings = {"level": self._options.search.level, "budget_s": self._options.search.budget_s}
                self._published[key] = prove_and_publish(opened, library, of_library, settings, of_unit.schedule)
            return self._published[key]


def _of_model(searched: Sequence[ModelTuning], model: Prepared) -> ModelTuning:
    return next(tuned for tuned in searched if tuned.prepared is model)


def _provenance(opened: OpenUnit, tuned: ModelTuning, files: TunedFiles) -> Provenance:
    paths = {"plan": tuned.plan_file, "weights": data_file(tuned.plan_file)}
    paths |= {role: path for role, path in (("tuned", files.tuned), ("kernels", files.kernels)) if path}
    return Provenance(
        hashes=opened.hashes(paths),
        fingerprint=row_fingerprint(tuned.target),
        settings={
            "data_type": plan_data_type(tuned.version.plan),
            "memory": tuned.target.memory,
            "opencl_library": opened.opencl_library,
            "tuned_file": str(files.tuned),
            "kernels_file": str(files.kernels),
        },
    )


def _tune_figures(
    tuned: ModelTuning, files: TunedFiles, proof: Proof, agreed: tuple[TuningAgreement, ...]
) -> TuneFigures:
    return TuneFigures(
        **gain_figures(proof),
        trials=tuned.trials,
        tried=tuned.tried,
        budget_needed_s=tuned.needed_s,
        device_s=tuned.device_s,
        artifacts=(str(files.tuned), str(files.kernels)),
        launches=len(tuned.verdicts),
        launches_tuned=tuned.won,
        slow_state_ratio=tuned.states.ratio if tuned.states else None,
        slow_state_share=tuned.states.slow_share if tuned.states else None,
        agreements=agreed,
        choice=tuned.chosen.figures if tuned.chosen else None,
        build_ahead=_build_ahead_figures(tuned),
    )


def _build_ahead_figures(tuned: ModelTuning) -> BuildAheadFigures | None:
    use = tuned.built_ahead
    return BuildAheadFigures(hidden_s=use.hidden_s, slowdown=use.slowdown, given_up=use.is_given_up) if use else None
