"""`farm inspect`: lowers each model for a unit that is there, or for one that a file describes, and shows what the plan
holds; reads plan files, too. Runs nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from farm.config.deployment import Deployment, Model, Runtime
from farm.config.inventory import Unit
from farm.farmrt.answers import ProbeAnswer
from farm.jobs.fleet.dispatch import FLEET, FleetOptions
from farm.jobs.fleet.job_rows import Settings, identity_of, rows_of_each
from farm.jobs.fleet.unit import OpenUnit, choose_target
from farm.jobs.models import plans
from farm.jobs.models.prepare import Failed, Prepared, prepare_all
from farm.plans.inspection import inspection, inspection_of_file
from farm.rows.inspect import InspectResult, InspectRow
from farm.rows.result import Conditions, make_row
from farm.rows.row import Failure, Identity, Provenance, row_fingerprint
from farm.units.target_files import read_target_file
from runtime.errors import FarmError
from runtime.plan.reading import read_plan_file
from runtime.target import Target


def inspect_job(
    deployment: Deployment, units: Sequence[Unit], memory: str | None = None, fleet: FleetOptions = FLEET
) -> Iterator[InspectRow]:
    """A row for each unit, model and runtime."""

    def measure(opened: OpenUnit, prepared: Prepared, runtime: Runtime) -> InspectResult:
        return _result(prepared, opened.target(prepared, runtime, memory))

    yield from rows_of_each(InspectRow, prepare_all(deployment), units, measure, _settings, fleet)


def inspect_for_file(deployment: Deployment, target_file: Path, memory: str | None = None) -> Iterator[InspectRow]:
    """A row for each model and runtime, for the unit that a file describes (what `farmrt probe` printed there)."""
    unit, probe = read_target_file(target_file)
    for model in prepare_all(deployment):
        for runtime in model.settings.runtimes:
            outcome = _outcome(unit, probe, model, runtime, memory)
            conditions = Conditions(_settings(model.settings, runtime))
            yield make_row(InspectRow, identity_of(unit, model, runtime), conditions, outcome)


def inspect_plan_file(path: Path) -> InspectRow:
    """The row of a plan file; ConfigError if it cannot be read, FormatError if it is damaged."""
    plan = read_plan_file(path)
    runtime = "gpu" if plan.uses_gpu else "cpu"
    identity = Identity(unit="", soc="", device_model="", library="", model=plan.model, runtime=runtime)
    settings = {"plan_file": str(path), "precision": plan.precision.name.lower(), "gpu_family": plan.gpu_family}
    result = InspectResult(figures=inspection_of_file(plan))
    return make_row(InspectRow, identity, Conditions(settings | {"runtime_version": plan.runtime_version}), result)


def _outcome(
    unit: Unit, probe: ProbeAnswer, model: Prepared | Failed, runtime: Runtime, memory: str | None
) -> InspectResult | Failure:
    if isinstance(model, Failed):
        return Failure.of(model.error)
    try:
        return _result(model, choose_target(unit, probe, model, runtime, memory))
    except FarmError as error:
        return Failure.of(error)


def _result(prepared: Prepared, target: Target) -> InspectResult:
    plan = plans.lowered(prepared, target, prepared.options())
    return InspectResult(provenance=Provenance(fingerprint=row_fingerprint(target)), figures=inspection(plan))


def _settings(model: Model, runtime: Runtime) -> Settings:
    return {"data_type": model.data_type_on(runtime), "winograd": model.winograd}
