"""A quantised model of each source is right on each kind of unit: host and emulated phone (CPU and GPU), played GPU."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import farm
from farm.config.inventory import Unit
from farm.emulation import PhoneSettings
from farm.emulation.phone_unit import emulated_phone_unit
from farm.emulation.played_gpu import played_environment
from tests import opencl
from tests.farm.model.quantised_models import FORMS, SHAPE
from tests.farm.model.tiny_model import write_deployment
from tests.frameworks.deployments import write

pytestmark = [pytest.mark.slow, pytest.mark.opencl]

# The model's file, with what a deployment file says of it.
TENSORFLOW = {
    "integer.tflite": {"platform": "tflite", "output": "output_0", "input_data_types": "[int8]"},
    "dynamic_range.tflite": {"platform": "tflite", "output": "output_0"},
    "sixteen_bits.tflite": {"platform": "tflite", "output": "output_0"},
    "fake_quant.pb": {"platform": "tensorflow"},
}
PYTORCH = {"quantised.pt2": {"platform": "pytorch", "source": "pixels", "shape": "2,3,16,16"}}
SOURCES = [*FORMS, *TENSORFLOW, *PYTORCH]
PLAYED = "mali-g72"
UNITS = ("host", "phone", "played")
# A source has one kind of unit a day.
IN_TURNS = [(source, unit) for number, source in enumerate(SOURCES) for unit in opencl.turn(number, UNITS)]


@contextmanager
def unit_of(kind: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Unit]]:
    if kind == "phone":
        with emulated_phone_unit("mate", PhoneSettings(soc="kirin970")) as phone:
            yield [phone]
        return
    if kind == "played":
        for name, value in played_environment(PLAYED).items():
            monkeypatch.setenv(name, value)
    yield farm.units(device=["host"])


def deployment_of(source: str, folder: Path, request: pytest.FixtureRequest) -> Path:
    if source in FORMS:
        shape = ",".join(map(str, SHAPE))
        return write_deployment(folder, FORMS[source](), shape=shape, runtime="cpu+gpu")
    framework = "tensorflow" if source in TENSORFLOW else "pytorch"
    models: Path = request.getfixturevalue(f"{framework}_models")
    return write(folder, model=models / source, **{**TENSORFLOW, **PYTORCH}[source])


@pytest.mark.parametrize(("source", "kind"), IN_TURNS)
def test_a_quantised_model_of_each_source_is_right(
    source: str, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    path = deployment_of(source, tmp_path, request)
    monkeypatch.chdir(tmp_path)
    with unit_of(kind, monkeypatch) as units:
        rows = list(farm.run(path, units, rounds=1, warmup=0, validate=True))
    assert [(row.runtime, row.status.value, row.reason) for row in rows] == [("cpu", "ok", ""), ("gpu", "ok", "")]
