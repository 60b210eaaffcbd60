import dataclasses
import json
import typing
from pathlib import Path
from typing import Any

import pytest

from farm import cli
from farm.rows.benchmark import BenchmarkResult
from farm.rows.compare import CompareResult
from farm.rows.convert import ConvertResult
from farm.rows.device_state import DeviceState
from farm.rows.engines import EnginesResult
from farm.rows.forecast import ForecastResult
from farm.rows.inspect import InspectResult
from farm.rows.latency import Latency
from farm.rows.nightly import NightlyResult
from farm.rows.opbench import OpbenchFigures, OpbenchResult, OpbenchRow
from farm.rows.quantize import QuantizeResult
from farm.rows.record import Record
from farm.rows.result import Conditions, Result, make_row
from farm.rows.row import Ending, Failure, Identity, Provenance, Row, Throttling, UnitStates, exit_status
from farm.rows.run import NoFile, RunFigures, RunResult, RunRow, TunedUse
from farm.rows.schema import ROW_TYPES, job_of, rows_schema
from farm.rows.status import Status, status_of
from farm.rows.tune import TuneResult
from runtime.errors import (
    BuildError,
    ConfigError,
    DeadlineError,
    DeviceError,
    DeviceLostError,
    FarmError,
    UnsupportedError,
)


def a_row(status: Status = Status.OK, **changes: object) -> RunRow:
    fields: dict[str, object] = {
        "unit": "host",
        "soc": "host",
        "device_model": "host",
        "library": "lib",
        "model": "net",
        "runtime": "gpu",
        "status": status,
    }
    return RunRow.model_validate(fields | changes)


def test_the_json_document_has_every_promised_key() -> None:
    row = a_row(cosine=0.5, latency_ms=Latency.of([2.0, 1.0, 4.0]), init_ms=3.0)
    parsed = json.loads(row.model_dump_json())
    promised = (
        "unit soc model runtime status reason cosine sqnr_db pixel_accuracy max_abs_error max_rel_error nan_count"
    )
    promised += " init_ms first_ms latency_ms fingerprint versions settings state_before state_after schema_version"
    assert set(promised.split()) <= set(parsed)
    assert parsed["latency_ms"] == {
        "median": 2.0,
        "p90": 4.0,
        "min": 1.0,
        "max": 4.0,
        "std": pytest.approx(1.2472191),
        "samples": [2.0, 1.0, 4.0],
    }
    assert set(parsed["versions"]) == {"python", "farm", "numpy", "onnx", "onnxruntime"}


def test_figures_that_are_not_finite_become_null() -> None:
    parsed = json.loads(a_row(max_abs_error=float("inf"), cosine=float("nan")).model_dump_json())
    assert parsed["max_abs_error"] is None and parsed["cosine"] is None


def test_percentiles_of_one_and_ten_samples() -> None:
    assert Latency.of([7.0]).p90 == 7.0
    assert Latency.of([float(value) for value in range(1, 11)]).p90 == 9.0


def test_exit_status_is_one_when_any_row_is_not_ok() -> None:
    assert exit_status([a_row(), a_row()]) == 0
    assert exit_status([a_row(), a_row(Status.WRONG_RESULT)]) == 1


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (UnsupportedError("x"), Status.UNSUPPORTED),
        (BuildError("x"), Status.BUILD_FAILED),
        (DeadlineError("x"), Status.TIMEOUT),
        (DeviceLostError("x"), Status.DEVICE_LOST),
        (DeviceError("x", "build_failed"), Status.BUILD_FAILED),
        (DeviceError("x", "unsupported"), Status.UNSUPPORTED),
        (DeviceError("x", "opencl"), Status.FAILED),
        (ConfigError("x"), Status.FAILED),
    ],
)
def test_every_error_has_its_status(error: FarmError, status: Status) -> None:
    assert status_of(error) == status


def test_an_unknown_member_is_refused() -> None:
    with pytest.raises(ValueError, match="Extra inputs"):
        Row.model_validate(a_row().model_dump() | {"speed": 1})


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


SCHEMA_IDENTITY = dict.fromkeys(("unit", "soc", "device_model", "library", "model", "runtime"), "x")


def below(row_type: type[Row]) -> set[type[Row]]:
    return {row_type}.union(*(below(child) for child in row_type.__subclasses__()))


def test_the_command_prints_it_and_writes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert (cli.call(["schema"]), cli.call(["schema", "-o", "rows.json"])) == (0, 0)
    printed = capsys.readouterr().out
    assert json.loads(printed) == rows_schema()
    assert Path("rows.json").read_text() == printed


def test_every_row_type_of_farm_is_in_it_under_its_own_job() -> None:
    ours = {row_type for row_type in below(Row) - {Row} if row_type.__module__.startswith("farm.")}
    assert ours == set(ROW_TYPES)
    assert len({job_of(row_type) for row_type in ROW_TYPES}) == len(ROW_TYPES)


@pytest.mark.parametrize("row_type", ROW_TYPES, ids=job_of)
def test_a_row_has_the_members_that_its_definition_names(row_type: type[Row]) -> None:
    definition: dict[str, Any] = rows_schema()["$defs"][row_type.__name__]
    row = json.loads(row_type.model_validate({**SCHEMA_IDENTITY, "status": "failed"}).model_dump_json())
    assert set(row) == set(definition["properties"])
    assert definition["properties"]["job"] == {"const": row["job"]}
    assert set(definition["required"]) <= set(row)
