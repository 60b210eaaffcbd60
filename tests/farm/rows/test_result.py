"""How a row is made of a result: the row type has every record of it, and nothing is lost on the way."""

from __future__ import annotations

import dataclasses
import typing

import pytest

from farm.rows.benchmark import BenchmarkResult
from farm.rows.compare import CompareResult
from farm.rows.convert import ConvertResult
from farm.rows.device_state import DeviceState
from farm.rows.engines import EnginesResult
from farm.rows.forecast import ForecastResult
from farm.rows.inspect import InspectResult
from farm.rows.nightly import NightlyResult
from farm.rows.opbench import OpbenchFigures, OpbenchResult, OpbenchRow
from farm.rows.quantize import QuantizeResult
from farm.rows.record import Record
from farm.rows.result import Conditions, Result, make_row
from farm.rows.row import Ending, Failure, Identity, Provenance, Row, Throttling, UnitStates
from farm.rows.run import NoFile, RunFigures, RunResult, RunRow, TunedUse
from farm.rows.status import Status
from farm.rows.tune import TuneResult
from runtime.errors import DeadlineError

RESULTS = (
    BenchmarkResult,
    CompareResult,
    ConvertResult,
    EnginesResult,
    ForecastResult,
    InspectResult,
    NightlyResult,
    OpbenchResult,
    QuantizeResult,
    RunResult,
    TuneResult,
)
IDENTITY = Identity(unit="u", soc="s", device_model="known", library="l", model="m", runtime="gpu")


def row_type_of(result_type: type[Result[typing.Any]]) -> type[Row]:
    """The row type that a result type is declared with."""
    (base,) = (base for base in result_type.__orig_bases__ if typing.get_origin(base) is Result)  # type: ignore[attr-defined]
    (row_type,) = typing.get_args(base)
    return row_type


def test_every_result_type_is_here() -> None:
    ours = {found for found in Result.__subclasses__() if found.__module__.startswith("farm.")}
    assert ours == set(RESULTS)


@pytest.mark.parametrize("result_type", RESULTS)
def test_a_row_type_inherits_every_record_of_its_result(result_type: type[Result[typing.Any]]) -> None:
    """So that each field is declared once, and mypy knows its type from the job to the report."""
    row_type, types = row_type_of(result_type), typing.get_type_hints(result_type)
    records = [types[field.name] for field in dataclasses.fields(result_type) if field.name != "device_model"]
    assert all(issubclass(record, Record) and issubclass(row_type, record) for record in records)
    own = set(row_type.model_fields) - set(Row.model_fields)
    assert own == {name for record in records for name in record.model_fields} - set(Row.model_fields)


def test_a_row_has_what_the_result_and_the_conditions_say() -> None:
    states = UnitStates(state_before=DeviceState(load_average=1.0), state_after=DeviceState(load_average=2.0))
    result = RunResult(
        device_model="told",
        provenance=Provenance(fingerprint={"gpu": "g"}, settings={"memory": "image"}, hashes={"plan": "p"}),
        throttling=Throttling(throttled="hot", repeats=2),
        figures=RunFigures(init_ms=1.5, tuned=TunedUse(match="exact", entries=3, used=2)),
    )
    row = make_row(RunRow, IDENTITY, Conditions({"rounds": 3, "memory": "auto"}, states), result)
    assert (row.status, row.reason, row.unit, row.device_model, row.job) == (Status.OK, "", "u", "told", "run")
    assert row.settings == {"rounds": 3, "memory": "image"}, "what was measured with counts more than what was asked"
    assert (row.fingerprint, row.hashes, row.throttled, row.repeats) == ({"gpu": "g"}, {"plan": "p"}, "hot", 2)
    assert (row.state_before, row.state_after) == (states.state_before, states.state_after)
    assert (row.init_ms, row.tuned, row.kernels) == (1.5, TunedUse(match="exact", entries=3, used=2), NoFile())


def test_a_failure_is_a_row_without_figures() -> None:
    row = make_row(OpbenchRow, IDENTITY, Conditions({"min_time_s": 0.2}), Failure.of(DeadlineError("too slow")))
    assert (row.status, row.reason, row.time_ns) == (Status.TIMEOUT, "too slow", None)
    assert (row.device_model, row.settings) == ("known", {"min_time_s": 0.2})


def test_a_result_may_end_badly_and_have_figures() -> None:
    wrong = Ending(status=Status.WRONG_RESULT, reason="y: NaN")
    row = make_row(OpbenchRow, IDENTITY, Conditions(), OpbenchResult(ending=wrong, figures=OpbenchFigures(time_ns=5)))
    assert (row.status, row.reason, row.time_ns) == (Status.WRONG_RESULT, "y: NaN", 5)


@pytest.mark.parametrize("tuned", [NoFile(), TunedUse(match="none", reason="another driver")])
def test_files_that_were_not_given_are_an_empty_object(tuned: TunedUse | NoFile) -> None:
    row = make_row(RunRow, IDENTITY, Conditions(), RunResult(figures=RunFigures(tuned=tuned)))
    written = row.model_dump(mode="json")
    assert written["tuned"] == tuned.model_dump() and written["kernels"] == {}
    assert RunRow.model_validate(written) == row
