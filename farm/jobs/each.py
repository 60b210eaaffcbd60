"""Every model on every unit and runtime: opens the units one by one, and makes a row of each outcome, good or bad."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from farm.deployment import Model, Runtime
from farm.device_state import read_state
from farm.inventory import Unit
from farm.jobs.prepare import Failed, Prepared
from farm.jobs.unit import OpenUnit, open_unit
from farm.results import Row, Status, status_of
from runtime.errors import ConfigError, FarmError

RowType = TypeVar("RowType", bound=Row)
Members = dict[str, Any]
Measure = Callable[[OpenUnit, Prepared, Runtime], Members]
Asked = Callable[[Model, Runtime], Members]
Progress = Callable[[str], None]


def silent(text: str) -> None:
    """Progress that nobody sees."""


def rows_of_each(
    kind: type[RowType],
    models: Sequence[Prepared | Failed],
    units: Sequence[Unit],
    measure: Measure,
    asked: Asked,
    opencl: str | None = None,
    progress: Progress = silent,
) -> Iterator[RowType]:
    """A row for each unit, model and runtime, in this order, as soon as it is there.

    `measure` returns the members of a good row; what it raises becomes a row with a status and a reason, except a
    ConfigError, which is the user's. `asked` gives the settings that are known before anything runs.
    """
    for unit in units:
        yield from _rows_on(kind, models, unit, measure, asked, opencl, progress)


def _rows_on(
    kind: type[RowType],
    models: Sequence[Prepared | Failed],
    unit: Unit,
    measure: Measure,
    asked: Asked,
    opencl: str | None,
    progress: Progress,
) -> Iterator[RowType]:
    pending = [(found, runtime) for found in models for runtime in found.settings.runtimes]
    unit_is_needed = any(isinstance(found, Prepared) for found in models)
    try:
        with open_unit(unit, opencl) if unit_is_needed else contextlib.nullcontext() as opened:
            while pending:
                found, runtime = pending[0]
                progress(f"{found.name} on {unit.name} ({runtime})")
                members = _members(opened, found, runtime, measure)
                yield kind.model_validate(members_of_row(unit, found, runtime, asked, members))
                del pending[0]
    except ConfigError:
        raise
    except FarmError as error:
        for found, runtime in pending:
            members = failed_members(found.error if isinstance(found, Failed) else error)
            yield kind.model_validate(members_of_row(unit, found, runtime, asked, members))


def _members(opened: OpenUnit | None, found: Prepared | Failed, runtime: Runtime, measure: Measure) -> Members:
    if isinstance(found, Failed):
        return failed_members(found.error)
    assert opened is not None
    if not opened.session.alive:
        opened.session.respawn()
    before = {"state_before": read_state(opened.transport)}
    try:
        measured = measure(opened, found, runtime)
    except ConfigError:
        raise
    except FarmError as error:
        return before | failed_members(error)
    return before | measured | {"state_after": read_state(opened.transport)}


def failed_members(error: FarmError) -> Members:
    """Status and reason of a row whose job ended with an error."""
    return {"status": status_of(error), "reason": str(error)}


def members_of_row(unit: Unit, found: Prepared | Failed, runtime: Runtime, asked: Asked, members: Members) -> Members:
    """Whose row it is and what was asked, then what came of it; both may add settings."""
    identity = {
        "unit": unit.name,
        "soc": unit.soc,
        "device_model": unit.model,
        "library": found.deployment.library_name,
        "model": found.name,
        "runtime": runtime,
        "status": Status.OK,
    }
    settings = asked(found.settings, runtime) | members.get("settings", {})
    return identity | members | {"settings": settings}
