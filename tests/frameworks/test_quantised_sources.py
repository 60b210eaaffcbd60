"""A quantised model of each source is right on each kind of unit: on its CPU and on its GPU."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import farm
from farm.config.inventory import Unit
from farm.emulation import PhoneSettings
from farm.emulation.board import Board
from farm.emulation.debian_root import SOC
from farm.emulation.phone_unit import emulated_phone_unit
from farm.emulation.played_gpu import played_environment
from tests import opencl
from tests.farm.model.quantised_models import FORMS, SHAPE
from tests.farm.model.tiny_model import write_deployment
from tests.frameworks.deployments import write
from tests.integration.conftest import board_here
from tests.integration.conftest import listed as listed

pytestmark = [pytest.mark.slow, pytest.mark.opencl]

# The model's file, with what a deployment file says of it.
TENSORFLOW = {
    "integer.tflite": {"platform": "tflite", "output": "output_0", "input_data_types": "[int8]"},
    "dynamic_range.tflite": {"platform": "tflite", "output": "output_0"},
    "sixteen_bits.tflite": {"platform": "tflite", "output": "output_0"},
    "fake_quant.pb": {"platform": "tensorflow"},
}
PIXELS = {"platform": "pytorch", "source": "pixels", "shape": "2,3,16,16"}
PYTORCH = {"quantised.pt2": PIXELS, "pt2e.pt2": PIXELS}
SOURCES = [*FORMS, *TENSORFLOW, *PYTORCH]
# GPUs without dot products, and with those of each extension, that of Adreno 618 beside an older OpenCL.
PLAYED = (
    "mali-g72",
    "mali-g78",
    "adreno750",
    "adreno618:extensions=cl_khr_byte_addressable_store cl_qcom_dot_product8",
)
DRIVERS = {opencl.label(driver): driver for driver in opencl.THOROUGH}
IMAGES = "images"  # of the first driver
UNITS = (*DRIVERS, IMAGES, "phone", "board", *PLAYED)
# A source has one kind of unit a day.
IN_TURNS = [(source, unit) for number, source in enumerate(SOURCES) for unit in opencl.turn(number, UNITS)]
OF_ONNX, OF_FRAMEWORKS = ([each for each in IN_TURNS if (each[0] in FORMS) == onnx] for onnx in (True, False))


@pytest.fixture
def board() -> Board:
    """Where one runs; tests/integration say whether it must."""
    found, absent = board_here()
    if absent:
        pytest.skip(absent)
    return found


@contextmanager
def unit_of(kind: str, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Iterator[list[Unit]]:
    if kind == "phone":
        with emulated_phone_unit("mate", PhoneSettings(soc="kirin970")) as phone:
            yield [phone]
        return
    if kind == "board":
        yield [request.getfixturevalue("listed")]
        return
    drivers = {**DRIVERS, IMAGES: opencl.THOROUGH[0]}
    chosen = {"FARM_OPENCL": str(drivers[kind].path)} if kind in drivers else played_environment(kind)
    for name, value in chosen.items():
        monkeypatch.setenv(name, value)
    yield farm.units(device=["host"])


def deployment_of(source: str, kind: str, folder: Path, request: pytest.FixtureRequest) -> Path:
    if source in FORMS:
        shape = ",".join(map(str, SHAPE))
        path = write_deployment(folder, FORMS[source](), shape=shape, runtime="cpu+gpu")
    else:
        framework = "tensorflow" if source in TENSORFLOW else "pytorch"
        models: Path = request.getfixturevalue(f"{framework}_models")
        path = write(folder, model=models / source, **{**TENSORFLOW, **PYTORCH}[source])
    if kind == "board":
        path.write_text(path.read_text().replace("target_abis: [host]", f"target_abis: [arm64]\ntarget_socs: [{SOC}]"))
    return path


@pytest.mark.parametrize(("source", "kind"), OF_ONNX)
def test_a_quantised_model_of_onnx_is_right(
    source: str, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    _check_quantised(source, kind, tmp_path, monkeypatch, request)


@pytest.mark.parametrize(("source", "kind"), OF_FRAMEWORKS)
def test_a_quantised_model_of_each_framework_is_right(
    source: str, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    _check_quantised(source, kind, tmp_path, monkeypatch, request)


def _check_quantised(
    source: str, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    path = deployment_of(source, kind, tmp_path, request)
    monkeypatch.chdir(tmp_path)
    with unit_of(kind, monkeypatch, request) as units:
        memory = "image" if kind == IMAGES else None
        rows = list(farm.run(path, units, rounds=1, warmup=0, validate=True, memory=memory))
    assert [(row.runtime, row.status.value, row.reason) for row in rows] == [("cpu", "ok", ""), ("gpu", "ok", "")]
