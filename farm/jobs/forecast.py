"""`farm forecast`: lowers each model for a unit that is there, or for one that a file describes; runs nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from farm.config.deployment import Deployment, Model, Runtime
from farm.config.inventory import Unit
from farm.farmrt.answers import ProbeAnswer
from farm.forecast import forecast
from farm.jobs.fleet.dispatch import FLEET, FleetOptions
from farm.jobs.fleet.job_rows import Settings, identity_of, rows_of_each
from farm.jobs.fleet.unit import OpenUnit, choose_target
from farm.jobs.models.prepare import Failed, Prepared, prepare_all
from farm.rows.forecast import ForecastResult, ForecastRow
from farm.rows.result import Conditions, make_row
from farm.rows.row import Failure, Provenance, row_fingerprint
from farm.units.target_files import read_target_file
from runtime.errors import FarmError
from runtime.lowering.lower import lower
from runtime.target import Target


def forecast_job(
    deployment: Deployment, units: Sequence[Unit], memory: str | None = None, fleet: FleetOptions = FLEET
) -> Iterator[ForecastRow]:
    """A row for each unit, model and runtime."""

    def measure(opened: OpenUnit, prepared: Prepared, runtime: Runtime) -> ForecastResult:
        return _result(prepared, opened.target(prepared, runtime, memory))

    yield from rows_of_each(ForecastRow, prepare_all(deployment), units, measure, _settings, fleet)


def forecast_for_file(deployment: Deployment, target_file: Path, memory: str | None = None) -> Iterator[ForecastRow]:
    """A row for each model and runtime, for the unit that a file describes (what `farmrt probe` printed there)."""
    unit, probe = read_target_file(target_file)
    for model in prepare_all(deployment):
        for runtime in model.settings.runtimes:
            outcome = _outcome(unit, probe, model, runtime, memory)
            conditions = Conditions(_settings(model.settings, runtime))
            yield make_row(ForecastRow, identity_of(unit, model, runtime), conditions, outcome)


def _outcome(
    unit: Unit, probe: ProbeAnswer, model: Prepared | Failed, runtime: Runtime, memory: str | None
) -> ForecastResult | Failure:
    if isinstance(model, Failed):
        return Failure.of(model.error)
    try:
        return _result(model, choose_target(unit, probe, model, runtime, memory))
    except FarmError as error:
        return Failure.of(error)


def _result(prepared: Prepared, target: Target) -> ForecastResult:
    plan = lower(prepared.graph, target, prepared.options())
    return ForecastResult(provenance=Provenance(fingerprint=row_fingerprint(target)), figures=forecast(plan))


def _settings(model: Model, runtime: Runtime) -> Settings:
    return {"data_type": model.data_type_on(runtime), "winograd": model.winograd}
