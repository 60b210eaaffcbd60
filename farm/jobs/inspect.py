"""`farm inspect`: lowers each model for a unit that is there, or for one that a file describes, and shows what the plan
holds; reads plan files, too. Runs nothing."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from farm.config.deployment import Deployment, Runtime
from farm.config.inventory import Unit
from farm.jobs.choices.model_choice import ModelChoice, model_choice
from farm.jobs.fleet.dispatch import FLEET, FleetOptions
from farm.jobs.fleet.job_rows import plan_settings, rows_of_each, rows_without_unit
from farm.jobs.fleet.planner import choose_target
from farm.jobs.fleet.unit import OpenUnit
from farm.jobs.models import plans
from farm.jobs.models.prepare import Prepared, plan_data_type, prepare_all
from farm.plans.inspection import inspection, inspection_of_file
from farm.rows.inspect import InspectResult, InspectRow
from farm.rows.result import Conditions, make_row
from farm.rows.row import Identity, Provenance, row_fingerprint
from farm.units.target_files import read_target_file
from runtime.plan.reading import read_plan_file
from runtime.target import Target


def inspect_job(
    deployment: Deployment, units: Sequence[Unit], memory: str | None = None, fleet: FleetOptions = FLEET
) -> Iterator[InspectRow]:
    """A row for each unit, model and runtime."""

    def measure(opened: OpenUnit, prepared: Prepared, runtime: Runtime) -> InspectResult:
        target = opened.planner.target(prepared, runtime, memory)
        return _result(prepared, target, opened.planner.model_choice(prepared, runtime, target, memory))

    yield from rows_of_each(InspectRow, prepare_all(deployment), units, measure, plan_settings, fleet)


def inspect_for_file(deployment: Deployment, target_file: Path, memory: str | None = None) -> Iterator[InspectRow]:
    """A row for each model and runtime, for the unit that a file describes (what `farmrt probe` printed there)."""
    unit, probe = read_target_file(target_file)

    def result(prepared: Prepared, runtime: Runtime) -> InspectResult:
        target = choose_target(unit, probe, prepared, runtime, memory)
        return _result(prepared, target, model_choice(unit, probe, prepared, runtime, target, memory))

    yield from rows_without_unit(InspectRow, prepare_all(deployment), unit, result, plan_settings)


def inspect_plan_file(path: Path) -> InspectRow:
    """The row of a plan file; ConfigError if it cannot be read, FormatError if it is damaged."""
    plan = read_plan_file(path)
    runtime = "gpu" if plan.uses_gpu else "cpu"
    identity = Identity(unit="", soc="", device_model="", library="", model=plan.model, runtime=runtime)
    settings = {"plan_file": str(path), "precision": plan.precision.label, "gpu_family": plan.gpu_family}
    result = InspectResult(figures=inspection_of_file(plan))
    return make_row(InspectRow, identity, Conditions(settings | {"runtime_version": plan.runtime_version}), result)


def _result(prepared: Prepared, target: Target, way: ModelChoice) -> InspectResult:
    """The plan that a unit would run."""
    target = way.target(target)
    plan = plans.lowered(prepared, target, way.options(prepared))
    figures = inspection(plan)
    told = figures.model_copy(update={"selection": way.planned.use, "is_tuned_for_cpu": way.cpu is not None})
    settings = {"data_type": plan_data_type(plan)}
    return InspectResult(provenance=Provenance(fingerprint=row_fingerprint(target), settings=settings), figures=told)
