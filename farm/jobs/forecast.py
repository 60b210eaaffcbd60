"""`farm forecast`: lowers each model for a unit that is there, or for one that a file describes; runs nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from pydantic import ValidationError

from farm.config.deployment import Deployment, Model, Runtime
from farm.config.fields import SAFE_NAME
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
from runtime.errors import ConfigError, FarmError
from runtime.lowering.lower import lower
from runtime.regular_file import open_regular
from runtime.target import Target

MAX_TARGET_FILE_BYTES = 1024**2


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


def read_target_file(path: Path) -> tuple[Unit, ProbeAnswer]:
    """A unit and its probe from the JSON that `farmrt probe` printed; a member `soc` may be added to it."""
    try:
        with open_regular(path) as file:
            probe = json.loads(file.read(MAX_TARGET_FILE_BYTES))
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from None
    except ValueError:
        raise ConfigError(f"{path}: not JSON; write there what `farmrt probe` prints on the unit") from None
    if not (isinstance(probe, dict) and isinstance(probe.get("opencl"), dict) and isinstance(probe.get("abi"), str)):
        raise ConfigError(f"{path}: not what `farmrt probe` prints: 'abi' and 'opencl' are missing")
    soc = str(probe.get("soc", "unknown"))
    try:
        answer = ProbeAnswer.model_validate({"cpu": {}, **probe})
    except ValidationError as error:
        where = ".".join(map(str, error.errors()[0]["loc"]))
        raise ConfigError(f"{path}: not all that `farmrt probe` prints: {where!r} is missing or wrong") from None
    name = path.stem if SAFE_NAME.fullmatch(path.stem) else "target"
    return Unit(name=name, transport="file", soc=soc, model=name, abis=("host",)), answer
