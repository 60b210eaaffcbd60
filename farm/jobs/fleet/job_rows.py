"""Every model on every unit and runtime: a row of each outcome, good or bad."""

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Generic, TypeVar

from farm import soc
from farm.condition import android_causes
from farm.condition.readiness import BYTES_PER_MB
from farm.config.deployment import FARMRT, Model, Runtime
from farm.config.inventory import Unit
from farm.jobs.fleet.dispatch import FleetOptions, Job, run_jobs
from farm.jobs.fleet.progress import SILENT, ProgressView
from farm.jobs.fleet.unit import OpenUnit
from farm.jobs.models.prepare import Failed, Prepared
from farm.rows.device_state import DeviceState
from farm.rows.result import Conditions, Result, make_row
from farm.rows.row import Failure, Identity, Row, UnitStates
from farm.rows.status import Status
from runtime.errors import (
    LACKS,
    ConfigError,
    DeadlineError,
    DeviceError,
    DeviceLostError,
    FarmError,
    LeaseLostError,
    ProcessEndedError,
    ProcessKilledError,
    UnsupportedError,
    farm_error,
)

RowType = TypeVar("RowType", bound=Row)
Value = TypeVar("Value")
Measure = Callable[[OpenUnit, Prepared, Runtime], Result[RowType]]
Settings = Mapping[str, Any]  # a row's settings: whatever the job was given, by name
KnownSettings = Callable[[Model, Runtime], Settings]
OF_FARMRT = ("data_type", "winograd", "limit_opencl_kernel_time")  # settings that mean nothing to other engines


REMEDY = (
    "so it did twice: shorter launches (limit_opencl_kernel_time: 1), half the memory (data_type: fp16_fp32) or "
    "runtime: cpu may work"
)


def known_in_engine(known: Settings, engine: str) -> Settings:
    """The settings of a row that are known before anything runs: those of other engines are without farmrt's own."""
    return {name: value for name, value in known.items() if engine == FARMRT or name not in OF_FARMRT}


def plan_settings(model: Model, runtime: Runtime) -> Settings:
    """The settings of a row that tells of a plan and of no run."""
    return {"data_type": model.data_type_on(runtime), "winograd": model.winograd}


def rows_of_each(
    row_type: type[RowType],
    models: Sequence[Prepared | Failed],
    units: Sequence[Unit],
    measure: Measure[RowType],
    known_settings: KnownSettings,
    options: FleetOptions,
    progress: ProgressView = SILENT,
) -> Iterator[RowType]:
    """A row for each unit, model and runtime as soon as it is there; with `options.spread` for each SoC instead.

    `measure` returns the result of a model; what it raises becomes a row with a status and a reason, except a
    ConfigError, which is the user's. `known_settings` gives the settings that are known before anything runs.

    Raises the first ModelError where every model is damaged or makes no sense: there is nothing to have a row of.
    """
    each = ((model, runtime, FARMRT, measure) for model in models for runtime in model.settings.runtimes)
    yield from rows_of_measures(row_type, list(each), units, known_settings, options, progress)


def rows_of_measures(
    row_type: type[RowType],
    measures: Sequence[tuple[Prepared | Failed, Runtime, str, Measure[RowType]]],
    units: Sequence[Unit],
    known_settings: KnownSettings,
    options: FleetOptions,
    progress: ProgressView = SILENT,
) -> Iterator[RowType]:
    """The same, of each model, runtime and engine that is listed, with what measures it."""
    runs = [_ModelRun(row_type, *each, known_settings) for each in measures]
    if wrong := _all_wrong([run.model for run in runs]):
        raise wrong
    groups = unit_groups(units, options.spread)
    for run in runs:
        if isinstance(run.model, Failed):
            yield from (run.failed(group[0], run.model.error) for group in groups)
    jobs = [Job(group, run.run, is_ok, run.failed, run.cost) for group in groups for run in runs if run.can_run]
    yield from run_jobs(jobs, options, progress)


def _all_wrong(models: Sequence[Prepared | Failed]) -> FarmError | None:
    """The error of the first model where none is good, or lacks an operator here alone."""
    errors = [model.error for model in models if isinstance(model, Failed)]
    is_wrong = len(errors) == len(models) and not any(isinstance(error, UnsupportedError) for error in errors)
    return errors[0] if errors and is_wrong else None


def rows_without_unit(
    row_type: type[RowType],
    models: Sequence[Prepared | Failed],
    unit: Unit,
    result: Callable[[Prepared, Runtime], Result[RowType]],
    known_settings: KnownSettings,
) -> Iterator[RowType]:
    """Makes the rows of a unit that is known but away, one for each model and runtime, without opening it."""
    for model in models:
        for runtime in model.settings.runtimes:
            conditions = Conditions(known_settings(model.settings, runtime))
            outcome = _without_unit(model, runtime, result)
            yield make_row(row_type, identity_of(unit, model, runtime), conditions, outcome)


def _without_unit(
    model: Prepared | Failed, runtime: Runtime, result: Callable[[Prepared, Runtime], Result[RowType]]
) -> Result[RowType] | Failure:
    if isinstance(model, Failed):
        return Failure.of(model.error)
    try:
        return result(model, runtime)
    except FarmError as error:
        return Failure.of(error)


def unit_groups(units: Sequence[Unit], spread: bool) -> list[list[Unit]]:
    """Units that can stand for each other: those of one SoC, as far as that is known, or each alone."""
    groups: dict[tuple[bool, str], list[Unit]] = {}
    for unit in units:
        together = spread and unit.soc != soc.UNKNOWN
        groups.setdefault((together, unit.soc if together else unit.name), []).append(unit)
    return list(groups.values())


def is_ok(row: Row) -> bool:
    """Returns whether the row's job succeeded."""
    return row.status == Status.OK


@dataclasses.dataclass(frozen=True)
class _ModelRun(Generic[RowType]):
    """A model and a runtime, to be measured on some unit."""

    row_type: type[RowType]
    model: Prepared | Failed
    runtime: Runtime
    engine: str
    measure: Measure[RowType]
    known_settings: KnownSettings

    @property
    def can_run(self) -> bool:
        return isinstance(self.model, Prepared)

    @property
    def cost(self) -> float:
        """Bytes of weights: what takes long to push takes long to run, roughly."""
        constants = self.model.graph.constants if isinstance(self.model, Prepared) else {}
        return float(sum(value.nbytes for value in constants.values()))

    def run(self, opened: OpenUnit) -> Iterator[RowType]:
        """The row of this unit. Raises what tells that the unit itself is gone."""
        assert isinstance(self.model, Prepared)
        engine = "" if self.engine == FARMRT else f", {self.engine}"
        opened.progress.stage(f"{self.model.name} ({self.runtime}{engine})")
        row = self._measured_row(opened, self.model)
        if row.status != Status.DEVICE_LOST:  # the unit answers still: it was farmrt that died
            opened.note_job(row.status, row.reason)
        yield row

    def failed(self, unit: Unit, error: FarmError) -> RowType:
        """The row of a unit that could not even begin."""
        return self._row(unit, Conditions(self._settings), Failure.of(error))

    def _measured_row(self, opened: OpenUnit, prepared: Prepared) -> RowType:
        opened.session.revive()
        before = opened.state()
        try:
            result = self._measured(opened, prepared)
        except ProcessKilledError as error:
            raise ProcessKilledError(
                f"{error}{_memory_text(before)}{android_causes.of_kill(opened.transport)}"
            ) from None
        except FarmError as error:
            if is_beyond_row(error, opened):
                raise _explained(error, before) from None
            if isinstance(error, DeadlineError):
                error = DeadlineError(f"{error}{android_causes.of_silence(opened.transport)}")
            conditions = Conditions(self._settings, UnitStates(state_before=before))
            return self._row(opened.unit, conditions, Failure.of(error))
        after = opened.state()
        settings = {**self._settings, **opened.connection.conditions}
        conditions = Conditions(settings, UnitStates(state_before=before, state_after=after))
        return self._row(opened.unit, conditions, result)

    def _measured(self, opened: OpenUnit, prepared: Prepared) -> Result[RowType]:
        return again_in_fresh_farmrt(opened, lambda: self.measure(opened, prepared, self.runtime))

    @property
    def _settings(self) -> Settings:
        return known_in_engine(self.known_settings(self.model.settings, self.runtime), self.engine)

    def _row(self, unit: Unit, conditions: Conditions, outcome: Result[RowType] | Failure) -> RowType:
        identity = identity_of(unit, self.model, self.runtime, self.engine)
        return make_row(self.row_type, identity, conditions, outcome)


def _explained(error: FarmError, before: DeviceState) -> FarmError:
    """The same error; that a phone is gone, with what its state before may have to do with it."""
    return type(error)(f"{error}{android_causes.of_loss(before)}") if type(error) is DeviceLostError else error


def _memory_text(before: DeviceState) -> str:
    """Says how much memory was free before the job; empty where the unit does not tell."""
    free_bytes = before.free_memory_bytes
    return "" if free_bytes is None else f"; {free_bytes / BYTES_PER_MB:.0f} MB of memory were free before"


def again_where_killed(opened: OpenUnit, retries: int, measure: Callable[[], Value]) -> Value:
    """What `measure` gives; where farmrt is killed and the unit is still there, it is done again, so often at most."""
    for _ in range(retries):
        try:
            return measure()
        except ProcessKilledError as error:
            if not opened.answers():
                raise
            opened.progress.stage(f"tried again: {error}")
    return measure()


def again_in_fresh_farmrt(opened: OpenUnit, measure: Callable[[], Value]) -> Value:
    """What `measure` gives; where OpenCL fails it is done once more in a fresh farmrt.

    A GPU that was reset takes all that the process had there, and its queue refuses whatever comes. What this machine
    lacks for it fails alone.
    """
    try:
        return measure()
    except LACKS as error:
        raise farm_error(error) from None
    except DeviceError as error:
        if error.kind != "opencl":
            raise
        opened.progress.stage(f"tried again: {error}")
    opened.session.respawn()
    try:
        return measure()
    except DeviceError as error:
        remedy = f"; {REMEDY}" if error.kind == "opencl" else ""
        raise DeviceError(f"{error}{remedy}", error.kind) from None


def is_beyond_row(error: FarmError, opened: OpenUnit) -> bool:
    """Whether an error is more than a row of its job: the user's mistake, or the unit is gone or somebody else's."""
    if isinstance(error, ConfigError | LeaseLostError):
        return True
    if isinstance(error, ProcessEndedError):
        return not opened.answers()
    return isinstance(error, DeviceLostError)


def identity_of(unit: Unit, model: Prepared | Failed, runtime: Runtime, engine: str = FARMRT) -> Identity:
    """Whose row it is: a model's in a runtime of an engine on a unit."""
    return Identity(
        unit=unit.name,
        soc=unit.soc,
        device_model=unit.model,
        library=model.deployment.library_name,
        model=model.name,
        runtime=runtime,
        engine=engine,
    )
