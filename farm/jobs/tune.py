"""`farm tune`: search, artifacts, and the proof that they are used and what they gain."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Sequence
from typing import Any

from farm import artifacts, fetch
from farm.artifacts import ModelRecord
from farm.deployment import Deployment, Model, Runtime
from farm.inventory import Unit
from farm.jobs.collect import Published, collect
from farm.jobs.compare import Comparison, compare
from farm.jobs.each import Members, Progress, rows_of_each, silent
from farm.jobs.prepare import Prepared, TestData, prepare_all
from farm.jobs.tune_search import SearchOptions, Tuned, search_models
from farm.jobs.unit import OpenUnit
from farm.jobs.validate import output_members
from farm.results import Status, TuneRow, row_fingerprint
from tuner.lab import Observer, unobserved

CPU_REASON = "runtime cpu: there is nothing to tune"


@dataclasses.dataclass(frozen=True)
class TuneOptions:
    """What `farm tune` was asked for."""

    search: SearchOptions
    opencl: str | None = None

    def asked(self, settings: Model, runtime: Runtime) -> Members:
        """Settings of a row that are known before anything runs."""
        return {
            "level": self.search.level,
            "budget_s": self.search.seconds if math.isfinite(self.search.seconds) else None,
            "data_type": settings.data_type_on(runtime),
            "winograd": settings.winograd,
            "limit_opencl_kernel_time": settings.limit_opencl_kernel_time,
        }


def tune_job(
    deployments: Sequence[Deployment],
    units: Sequence[Unit],
    options: TuneOptions,
    progress: Progress = silent,
    observe: Observer = unobserved,
) -> Iterator[TuneRow]:
    """A row for each unit, model and runtime. All models of a unit are searched together before its first row."""
    models = [found for each in deployments for found in prepare_all(each)]
    prepared = [found for found in models if isinstance(found, Prepared) and "gpu" in found.settings.runtimes]
    units_done: dict[str, _TunedUnit] = {}

    def measure(opened: OpenUnit, model: Prepared, runtime: Runtime) -> Members:
        if runtime == "cpu":
            return {"reason": CPU_REASON}
        opened.target(model, runtime, options.search.memory)  # what a unit cannot run is said before anything else
        if opened.unit.name not in units_done:
            found = search_models(opened, prepared, options.search, progress, observe)
            units_done[opened.unit.name] = _TunedUnit(found, options)
        return units_done[opened.unit.name].members(opened, model, progress)

    yield from rows_of_each(TuneRow, models, units, measure, options.asked, options.opencl, progress)


class _TunedUnit:
    """What was found on a unit; a library's artifacts are written when the first of its models is asked for."""

    def __init__(self, found: Sequence[Tuned], options: TuneOptions) -> None:
        self._found = {id(each.prepared): each for each in found}
        self._options = options
        self._published: dict[str, Published] = {}

    def members(self, opened: OpenUnit, model: Prepared, progress: Progress) -> Members:
        """Members of a model's row."""
        found = self._found[id(model)]
        published = self._publish(opened, model, progress)
        progress(f"{model.name}: default against tuned")
        data = TestData(model, fetch.Fetcher(model.deployment).validation_inputs(model.name))
        compared = compare(opened, found, published, data)
        evidence = _evidence(found, compared)
        artifacts.add_evidence(published.tuned_file.parent, published.record, evidence)
        return _members(opened, found, published, compared) | _verdict(model, data, compared)

    def _publish(self, opened: OpenUnit, model: Prepared, progress: Progress) -> Published:
        library = model.deployment.library_name
        if library not in self._published:
            progress(f"{library}: compiling the tuned kernels")
            found = [each for each in self._found.values() if each.prepared.deployment.library_name == library]
            settings = {"level": self._options.search.level, "budget_s": self._options.search.budget_s}
            self._published[library] = collect(opened, library, found, settings)
        return self._published[library]


def _evidence(found: Tuned, compared: Comparison) -> ModelRecord:
    return ModelRecord(
        model=found.prepared.name,
        default_ms=compared.default_ms,
        tuned_ms=compared.tuned_ms,
        gain_percent=compared.ratio.gain_percent,
        gain_ci=compared.ratio.gain_interval,
        trials=found.trials,
        device_s=found.device_s,
    )


def _members(opened: OpenUnit, found: Tuned, published: Published, compared: Comparison) -> Members:
    return {
        "device_model": opened.device_model,
        "fingerprint": row_fingerprint(found.target),
        "default_ms": compared.default_ms.median,
        "tuned_ms": compared.tuned_ms.median,
        "gain_percent": compared.ratio.gain_percent,
        "gain_ci": compared.ratio.gain_interval,
        "trials": found.trials,
        "device_s": found.device_s,
        "artifacts": (str(published.tuned_file), str(published.kernels_file)),
        "launches": len(found.verdicts),
        "launches_tuned": found.won,
        "default_latency_ms": compared.default_ms,
        "default_init_ms": compared.default_answer["init_ms"],
        "latency_ms": compared.tuned_ms,
        "init_ms": compared.answer["init_ms"],
        "first_ms": compared.first_ms,
        "memory_bytes": compared.answer.get("memory", {}),
        "tuned": compared.answer["tuned"],
        "kernels": compared.answer["kernels"],
        "settings": {
            "memory": found.target.memory,
            "opencl_library": opened.opencl_library,
            "tuned_file": str(published.tuned_file),
            "kernels_file": str(published.kernels_file),
        },
    }


def _verdict(model: Prepared, data: TestData, compared: Comparison) -> dict[str, Any]:
    """Status and reason: the tuned model must be right, and must have used its tuned parameters."""
    members = output_members(model, "gpu", data.expected, compared.outputs)
    tuned = compared.answer["tuned"]
    if members["status"] == Status.OK and tuned["match"] != "exact":
        members |= {"status": Status.FAILED, "reason": f"the tuned parameters were not used: {tuned['reason']}"}
    return members
