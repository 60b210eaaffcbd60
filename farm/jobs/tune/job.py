"""`farm tune`: search, artifacts, and the proof that they are used and what they gain."""

from __future__ import annotations

import dataclasses
import math
import threading
from collections.abc import Iterator, Sequence
from weakref import WeakKeyDictionary

from farm import artifacts
from farm.artifacts import ModelRecord
from farm.config.deployment import Deployment, Model, Runtime
from farm.config.execution import DEFAULT, Execution
from farm.config.inventory import Unit
from farm.jobs.compare.interleaved import Effort, TunedComparison, TunedFiles, compare
from farm.jobs.fleet.dispatch import FLEET, FleetOptions
from farm.jobs.fleet.execution import execution_figures
from farm.jobs.fleet.job_rows import Settings, rows_of_each
from farm.jobs.fleet.progress import SILENT, ProgressView
from farm.jobs.fleet.unit import OpenUnit
from farm.jobs.models.prepare import Prepared, TestData, prepare_all
from farm.jobs.tune.collect import Published, collect
from farm.jobs.tune.search import SearchOptions, Tuned, search_models
from farm.jobs.tune.shared_search import SharedSearch
from farm.jobs.validate import Validation, compare_outputs
from farm.model import fetch
from farm.rows.row import Ending, Provenance, row_fingerprint
from farm.rows.run import RunFigures
from farm.rows.status import Status
from farm.rows.tune import TuneFigures, TuneResult, TuneRow
from farm.workspace import data_file
from runtime.artifacts import fingerprint_of

NO_CHANGE_EFFORT = Effort(turns=8, turn_ms=0.0)  # both launch the same: there is no gain to make sure of
CPU_REASON = "runtime cpu: there is nothing to tune"


@dataclasses.dataclass(frozen=True)
class TuneOptions:
    """What `farm tune` was asked for."""

    search: SearchOptions
    execution: Execution = DEFAULT

    def settings(self, settings: Model, runtime: Runtime) -> Settings:
        """Settings of a row that are known before anything runs."""
        return {
            "level": self.search.level,
            "budget_s": self.search.seconds if math.isfinite(self.search.seconds) else None,
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
    models = [model.with_execution(options.execution) for source in deployments for model in prepare_all(source)]
    prepared = [model for model in models if isinstance(model, Prepared) and "gpu" in model.settings.runtimes]
    tuning = _Tuning(prepared, options, len(units))

    def measure(opened: OpenUnit, model: Prepared, runtime: Runtime) -> TuneResult:
        if runtime == "cpu":
            return TuneResult(ending=Ending(status=Status.OK, reason=CPU_REASON))
        opened.target(model, runtime, options.search.memory)  # what a unit cannot run is said before anything else
        return tuning.result(opened, model)

    yield from rows_of_each(TuneRow, models, units, measure, options.settings, fleet, progress)


class _Tuning:
    """The searches of a job and what they found.

    A library's artifacts are written by the first unit of a fingerprint and device model.
    """

    def __init__(self, models: Sequence[Prepared], options: TuneOptions, units: int) -> None:
        self._models, self._options = models, options
        self._search: SharedSearch[list[Tuned]] = SharedSearch(units)
        self._searched: WeakKeyDictionary[OpenUnit, list[Tuned]] = WeakKeyDictionary()
        self._published: dict[tuple[object, ...], Published] = {}
        self._publishing = threading.Lock()

    def result(self, opened: OpenUnit, model: Prepared) -> TuneResult:
        """What tuning a model gains; all models of the job are searched with the first."""
        if opened not in self._searched:
            self._searched[opened] = search_models(opened, self._models, self._options.search, self._search)
        searched = self._searched[opened]
        tuned = next(tuned for tuned in searched if tuned.prepared is model)
        published = self._publish(opened, model, searched)
        opened.progress.stage(f"{model.name}: default against tuned")
        data = TestData(model, fetch.Fetcher(model.deployment).validation_inputs(model.name))
        compared = compare(opened, _files(tuned, published), data, None if tuned.won else NO_CHANGE_EFFORT)
        evidence = _evidence(tuned, compared)
        artifacts.add_evidence(published.tuned_file.parent, published.record, evidence)
        validation = compare_outputs(model, "gpu", data.expected, compared.outputs)
        return TuneResult(
            ending=_ending(validation, compared),
            device_model=opened.device_model,
            provenance=_provenance(opened, tuned, published),
            throttling=compared.throttling,
            figures=_run_figures(compared, model.settings.execution),
            comparison=validation.comparison,
            tuning=_tune_figures(tuned, published, compared),
        )

    def _publish(self, opened: OpenUnit, model: Prepared, searched: Sequence[Tuned]) -> Published:
        library = model.deployment.library_name
        of_library = [tuned for tuned in searched if tuned.prepared.deployment.library_name == library]
        key = (library, opened.unit.abi, opened.device_model, fingerprint_of(of_library[0].target))
        with self._publishing:
            if key not in self._published:
                opened.progress.stage(f"{library}: compiling the tuned kernels")
                settings = {"level": self._options.search.level, "budget_s": self._options.search.budget_s}
                self._published[key] = collect(opened, library, of_library, settings)
            return self._published[key]


def _files(tuned: Tuned, published: Published) -> TunedFiles:
    settings = tuned.prepared.settings
    files = tuned.plan_file, published.tuned_file, published.kernels_file
    return TunedFiles(tuned.plan, *files, settings.limit_opencl_kernel_time, settings.execution)


def _evidence(tuned: Tuned, compared: TunedComparison) -> ModelRecord:
    return ModelRecord(
        model=tuned.prepared.name,
        default_ms=compared.default_ms,
        tuned_ms=compared.tuned_ms,
        gain_percent=compared.ratio.gain_percent,
        gain_ci=compared.ratio.gain_interval,
        trials=tuned.trials,
        device_s=tuned.device_s,
    )


def _ending(validation: Validation, compared: TunedComparison) -> Ending:
    """How a tuning ends: the tuned model must be right, and must have used its tuned parameters."""
    used = compared.tuned_load.tuned
    if validation.is_ok and (used is None or used.match != "exact"):
        reason = used.reason if used else "farmrt does not tell of them"
        return Ending(status=Status.FAILED, reason=f"the tuned parameters were not used: {reason}")
    return validation.ending


def _provenance(opened: OpenUnit, tuned: Tuned, published: Published) -> Provenance:
    files = {"plan": tuned.plan_file, "weights": data_file(tuned.plan_file)}
    files |= {"tuned": published.tuned_file, "kernels": published.kernels_file}
    return Provenance(
        hashes=opened.hashes(files),
        fingerprint=row_fingerprint(tuned.target),
        settings={
            "memory": tuned.target.memory,
            "opencl_library": opened.opencl_library,
            "tuned_file": str(published.tuned_file),
            "kernels_file": str(published.kernels_file),
        },
    )


def _run_figures(compared: TunedComparison, execution: Execution) -> RunFigures:
    """The figures of the tuned model."""
    load = compared.tuned_load
    return RunFigures(
        latency_ms=compared.tuned_ms,
        init_ms=load.init_ms,
        first_ms=compared.first_ms,
        memory_bytes=load.memory,
        tuned=load.tuned_use,
        kernels=load.kernels_use,
        **dict(execution_figures(load, execution)),
    )


def _tune_figures(tuned: Tuned, published: Published, compared: TunedComparison) -> TuneFigures:
    return TuneFigures(
        default_ms=compared.default_ms.median,
        tuned_ms=compared.tuned_ms.median,
        gain_percent=compared.ratio.gain_percent,
        gain_ci=compared.ratio.gain_interval,
        trials=tuned.trials,
        device_s=tuned.device_s,
        artifacts=(str(published.tuned_file), str(published.kernels_file)),
        launches=len(tuned.verdicts),
        launches_tuned=tuned.won,
        default_latency_ms=compared.default_ms,
        default_init_ms=compared.default_load.init_ms,
    )
