"""`farm tune`: search, artifacts, and the proof that they are used and what they gain."""

from __future__ import annotations

import dataclasses
import math
import threading
from collections.abc import Iterator, Sequence
from typing import Any
from weakref import WeakKeyDictionary

from farm import artifacts
from farm.artifacts import ModelRecord
from farm.config.deployment import Deployment, Model, Runtime
from farm.config.inventory import Unit
from farm.jobs.compare.interleaved import Comparison, TunedFiles, compare
from farm.jobs.fleet.dispatch import FLEET, FleetOptions
from farm.jobs.fleet.job_rows import Members, rows_of_each
from farm.jobs.fleet.progress import UNWATCHED, Watch
from farm.jobs.fleet.unit import OpenUnit
from farm.jobs.models.prepare import Prepared, TestData, prepare_all
from farm.jobs.tune.collect import Published, collect
from farm.jobs.tune.search import SearchOptions, Tuned, search_models
from farm.jobs.tune.shared_search import SharedSearch
from farm.jobs.validate import output_members
from farm.model import fetch
from farm.rows.row import Status, TuneRow, row_fingerprint
from farm.workspace import data_file
from runtime.artifacts import fingerprint_of

CPU_REASON = "runtime cpu: there is nothing to tune"


@dataclasses.dataclass(frozen=True)
class TuneOptions:
    """What `farm tune` was asked for."""

    search: SearchOptions

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
    fleet: FleetOptions = FLEET,
    watch: Watch = UNWATCHED,
) -> Iterator[TuneRow]:
    """A row for each unit, model and runtime.

    All models of a unit are searched together before its first row, and units with the same target search together.
    """
    models = [found for each in deployments for found in prepare_all(each)]
    prepared = [found for found in models if isinstance(found, Prepared) and "gpu" in found.settings.runtimes]
    tuning = _Tuning(prepared, options, len(units))

    def measure(opened: OpenUnit, model: Prepared, runtime: Runtime) -> Members:
        if runtime == "cpu":
            return {"reason": CPU_REASON}
        opened.target(model, runtime, options.search.memory)  # what a unit cannot run is said before anything else
        return tuning.members(opened, model)

    yield from rows_of_each(TuneRow, models, units, measure, options.asked, fleet, watch)


class _Tuning:
    """What was found; a library's artifacts are written by the first unit of a fingerprint and device model."""

    def __init__(self, models: Sequence[Prepared], options: TuneOptions, units: int) -> None:
        self._models, self._options = models, options
        self._search: SharedSearch[list[Tuned]] = SharedSearch(units)
        self._searched: WeakKeyDictionary[OpenUnit, list[Tuned]] = WeakKeyDictionary()
        self._published: dict[tuple[object, ...], Published] = {}
        self._publishing = threading.Lock()

    def members(self, opened: OpenUnit, model: Prepared) -> Members:
        """Members of a model's row."""
        if opened not in self._searched:
            self._searched[opened] = search_models(opened, self._models, self._options.search, self._search)
        searched = self._searched[opened]
        found = next(each for each in searched if each.prepared is model)
        published = self._publish(opened, model, searched)
        opened.watch.stage(f"{model.name}: default against tuned")
        data = TestData(model, fetch.Fetcher(model.deployment).validation_inputs(model.name))
        compared = compare(opened, _files(found, published), data)
        evidence = _evidence(found, compared)
        artifacts.add_evidence(published.tuned_file.parent, published.record, evidence)
        return _members(opened, found, published, compared) | _verdict(model, data, compared)

    def _publish(self, opened: OpenUnit, model: Prepared, searched: Sequence[Tuned]) -> Published:
        library = model.deployment.library_name
        found = [each for each in searched if each.prepared.deployment.library_name == library]
        key = (library, opened.unit.abi, opened.device_model, fingerprint_of(found[0].target))
        with self._publishing:
            if key not in self._published:
                opened.watch.stage(f"{library}: compiling the tuned kernels")
                settings = {"level": self._options.search.level, "budget_s": self._options.search.budget_s}
                self._published[key] = collect(opened, library, found, settings)
            return self._published[key]


def _files(found: Tuned, published: Published) -> TunedFiles:
    limited = found.prepared.settings.limit_opencl_kernel_time
    return TunedFiles(found.plan, found.plan_file, published.tuned_file, published.kernels_file, limited)


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
    files = {"plan": found.plan_file, "weights": data_file(found.plan_file)}
    files |= {"tuned": published.tuned_file, "kernels": published.kernels_file}
    return {
        **compared.heat,
        "device_model": opened.device_model,
        "hashes": opened.hashes(files),
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
