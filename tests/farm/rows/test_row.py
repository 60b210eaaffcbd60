from __future__ import annotations

import json

import pytest

from farm.rows.latency import Latency
from farm.rows.row import Row, exit_status
from farm.rows.run import RunRow
from farm.rows.status import Status, status_of
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
