"""`farm forecast`: lowers each model for a unit that is there, or for one that a file describes; runs nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from farm.config.deployment import Deployment, Model, Runtime
from farm.config.fields import SAFE_NAME
from farm.config.inventory import Unit
from farm.forecast import ForecastRow, forecast
from farm.jobs.fleet.dispatch import FLEET, FleetOptions
from farm.jobs.fleet.job_rows import Members, failed_members, members_of_row, rows_of_each
from farm.jobs.fleet.unit import OpenUnit, choose_target
from farm.jobs.models.prepare import Failed, Prepared, prepare_all
from farm.rows.row import row_fingerprint
from runtime.errors import ConfigError, FarmError
from runtime.lowering.lower import lower
from runtime.regular_file import open_regular
from runtime.target import Target, target_from_probe

MAX_TARGET_FILE_BYTES = 1024**2


def forecast_job(
    deployment: Deployment, units: Sequence[Unit], memory: str | None = None, fleet: FleetOptions = FLEET
) -> Iterator[ForecastRow]:
    """A row for each unit, model and runtime."""

    def measure(opened: OpenUnit, prepared: Prepared, runtime: Runtime) -> Members:
        return _members(prepared, opened.target(prepared, runtime, memory))

    yield from rows_of_each(ForecastRow, prepare_all(deployment), units, measure, _asked, fleet)


def forecast_for_file(deployment: Deployment, target_file: Path, memory: str | None = None) -> Iterator[ForecastRow]:
    """A row for each model and runtime, for the unit that a file describes (what `farmrt probe` printed there)."""
    unit, probe = read_target_file(target_file)
    for found in prepare_all(deployment):
        for runtime in found.settings.runtimes:
            outcome = _outcome(unit, probe, found, runtime, memory)
            yield ForecastRow.model_validate(members_of_row(unit, found, runtime, _asked, outcome))


def _outcome(
    unit: Unit, probe: Mapping[str, Any], found: Prepared | Failed, runtime: Runtime, memory: str | None
) -> Members:
    if isinstance(found, Failed):
        return failed_members(found.error)
    try:
        return _members(found, choose_target(unit, probe, found, runtime, memory))
    except FarmError as error:
        return failed_members(error)


def _members(prepared: Prepared, target: Target) -> Members:
    plan = lower(prepared.graph, target, prepared.options())
    return {**forecast(plan), "fingerprint": row_fingerprint(target)}


def _asked(settings: Model, runtime: Runtime) -> Members:
    return {"data_type": settings.data_type_on(runtime), "winograd": settings.winograd}


def read_target_file(path: Path) -> tuple[Unit, Mapping[str, Any]]:
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
        target_from_probe(probe, soc)
    except (KeyError, TypeError) as error:
        raise ConfigError(f"{path}: not all that `farmrt probe` prints: {error} is missing or wrong") from None
    name = path.stem if SAFE_NAME.fullmatch(path.stem) else "target"
    return Unit(name=name, transport="file", soc=soc, model=name, abis=("host",)), probe
