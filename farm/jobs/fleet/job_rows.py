"""Every model on every unit and runtime: a row of each outcome, good or bad."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Generic, TypeVar

from farm import soc
from farm.condition.device_state import read_state
from farm.config.deployment import Model, Runtime
from farm.config.inventory import Unit
from farm.jobs.fleet.dispatch import FleetOptions, Job, run_jobs
from farm.jobs.fleet.progress import UNWATCHED, Watch
from farm.jobs.fleet.unit import OpenUnit
from farm.jobs.models.prepare import Failed, Prepared
from farm.rows.row import Row, Status, status_of
from runtime.errors import ConfigError, DeviceLostError, FarmError, LeaseLostError, ProcessEndedError

RowType = TypeVar("RowType", bound=Row)
Members = dict[str, Any]
Measure = Callable[[OpenUnit, Prepared, Runtime], Members]
Asked = Callable[[Model, Runtime], Members]


def rows_of_each(
    kind: type[RowType],
    models: Sequence[Prepared | Failed],
    units: Sequence[Unit],
    measure: Measure,
    asked: Asked,
    options: FleetOptions,
    watch: Watch = UNWATCHED,
) -> Iterator[RowType]:
    """A row for each unit, model and runtime as soon as it is there; with `options.spread` for each SoC instead.

    `measure` returns the members of a good row; what it raises becomes a row with a status and a reason, except a
    ConfigError, which is the user's. `asked` gives the settings that are known before anything runs.
    """
    matters = [_Matter(kind, found, runtime, measure, asked) for found in models for runtime in found.settings.runtimes]
    groups = _groups(units, options.spread)
    for matter in matters:
        if isinstance(matter.found, Failed):
            yield from (matter.failed(group[0], matter.found.error) for group in groups)
    jobs = [Job(group, each.run, is_ok, each.failed, each.cost) for group in groups for each in matters if each.can_run]
    yield from run_jobs(jobs, options, watch)


def _groups(units: Sequence[Unit], spread: bool) -> list[list[Unit]]:
    """Units that can stand for each other: those of one SoC, as far as that is known, or each alone."""
    groups: dict[tuple[bool, str], list[Unit]] = {}
    for unit in units:
        together = spread and unit.soc != soc.UNKNOWN
        groups.setdefault((together, unit.soc if together else unit.name), []).append(unit)
    return list(groups.values())


def is_ok(row: Row) -> bool:
    """Whether a row tells of a job that went well."""
    return row.status == Status.OK


@dataclasses.dataclass(frozen=True)
class _Matter(Generic[RowType]):
    """A model and a runtime, to be measured on some unit."""

    kind: type[RowType]
    found: Prepared | Failed
    runtime: Runtime
    measure: Measure
    asked: Asked

    @property
    def can_run(self) -> bool:
        return isinstance(self.found, Prepared)

    @property
    def cost(self) -> float:
        """Bytes of weights: what takes long to push takes long to run, roughly."""
        constants = self.found.graph.constants if isinstance(self.found, Prepared) else {}
        return float(sum(value.nbytes for value in constants.values()))

    def run(self, opened: OpenUnit) -> Iterator[RowType]:
        """The row of this unit. Raises what tells that the unit itself is gone."""
        assert isinstance(self.found, Prepared)
        opened.watch.stage(f"{self.found.name} ({self.runtime})")
        row = self._row(opened.unit, self._members(opened, self.found))
        if row.status != Status.DEVICE_LOST:  # the unit answers still: it was farmrt that died
            opened.note_job(row.status, row.reason)
        yield row

    def failed(self, unit: Unit, error: FarmError) -> RowType:
        """The row of a unit that could not even begin."""
        return self._row(unit, failed_members(error))

    def _members(self, opened: OpenUnit, prepared: Prepared) -> Members:
        if not opened.session.alive:
            opened.session.respawn()
        before: Members = {"state_before": opened.watch.state(read_state(opened.transport))}
        try:
            measured = self.measure(opened, prepared, self.runtime)
        except FarmError as error:
            if is_beyond_row(error, opened):
                raise
            return before | failed_members(error)
        after = {"state_after": opened.watch.state(read_state(opened.transport))}
        settings = {**opened.way.conditions, **measured.get("settings", {})}
        return before | measured | after | {"settings": settings}

    def _row(self, unit: Unit, members: Members) -> RowType:
        return self.kind.model_validate(members_of_row(unit, self.found, self.runtime, self.asked, members))


def is_beyond_row(error: FarmError, opened: OpenUnit) -> bool:
    """Whether an error is more than a row of its job: the user's mistake, or the unit is gone or somebody else's."""
    if isinstance(error, ConfigError | LeaseLostError):
        return True
    if isinstance(error, ProcessEndedError):
        return not opened.answers()
    return isinstance(error, DeviceLostError)


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
