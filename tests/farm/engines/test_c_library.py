"""Engines by their C library: the outputs of the runner in C are those of the engine's Python package."""

from __future__ import annotations

import dataclasses
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import onnx
import pytest

from farm.engines import wheels
from farm.engines.base import EngineRun, EngineTask, EngineUnit
from farm.engines.c_library import package_library
from farm.engines.litert import LiteRt
from farm.engines.onnxruntime import OnnxRuntime
from farm.farmrt.unit_file_store import UnitFileStore
from farm.transport.local import LocalTransport
from runtime.errors import DeviceError, UnsupportedError
from tests.conftest import require
from tests.farm.engines import test_adapters
from tests.farm.engines.test_adapters import INPUT, engine_model, write_chain
from tests.farm.model.tiny_model import model_of

pytestmark = pytest.mark.slow
played_delegate = test_adapters.played_delegate

TYPES = (
    "float32",
    "float16",
    "float64",
    "bool",
    *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)),
)
CHAIN_INPUT = np.array([[-1, 0, 2, -3]], np.float32)
C, PYTHON = {"runner": "c"}, {"runner": "python"}


@pytest.fixture
def unit(tmp_path: Path) -> Iterator[EngineUnit]:
    """A unit that is not this machine, but runs what it runs."""
    transport = LocalTransport(tmp_path / "unit")
    with UnitFileStore(transport) as store:
        yield EngineUnit("phone", "host", False, transport, store, list, 60.0)
    transport.close()


def litert_rounds(unit: EngineUnit, folder: Path, options: Mapping[str, str], **fields: object) -> EngineRun:
    require("litert", LiteRt().missing())
    write_chain(folder / "chain.tflite", "NEG", "RELU", "ABS", "RELU", "NEG")
    model = engine_model(folder, **{"platform": "tflite", "source": folder / "chain.tflite", **fields})
    with LiteRt().ready(dataclasses.replace(unit, is_here=True)) as run:
        return run(EngineTask(model, "cpu", {model.inputs[0]: CHAIN_INPUT}, 3, 1, 2, options))


def rounds_of(
    unit: EngineUnit,
    folder: Path,
    options: Mapping[str, str],
    threads: int | None = 1,
    engine: OnnxRuntime | None = None,
) -> EngineRun:
    with (engine or OnnxRuntime()).ready(dataclasses.replace(unit, is_here=True)) as run:
        return run(EngineTask(engine_model(folder), "cpu", {"x": INPUT}, 3, 1, threads, options))


def test_it_does_what_the_package_does(unit: EngineUnit, tmp_path: Path) -> None:
    in_c, in_python = (rounds_of(unit, tmp_path, options) for options in (C, PYTHON))
    np.testing.assert_array_equal(in_c.outputs["y"], in_python.outputs["y"])
    assert in_c.outputs["y"].dtype == np.float32 and len(in_c.samples_ms) == 3 and in_c.version == in_python.version
    assert in_c.settings == {"nodes": {"CPUExecutionProvider": 5}, "runner": "c"} != in_python.settings
    assert in_c.init_ms and in_c.first_ms and in_c.peak_bytes and in_c.peak_since == in_python.peak_since
    assert in_c.hashes["engine"] != in_python.hashes["engine"] and in_c.size_bytes["model"] > 0


def test_arrays_of_every_type_go_in_and_out(unit: EngineUnit, tmp_path: Path) -> None:
    values = {name: np.random.default_rng(1).integers(0, 2, (2, 3)).astype(name) for name in TYPES}
    values |= {"scalar": np.array(7, np.int64), "empty": np.zeros((0, 3), np.float32)}
    kinds = {name: onnx.helper.np_dtype_to_tensor_dtype(value.dtype) for name, value in values.items()}
    nodes = [onnx.helper.make_node("Identity", [name], [f"{name}_out"]) for name in values]
    sides = [
        [onnx.helper.make_tensor_value_info(f"{name}{end}", kinds[name], value.shape) for name, value in values.items()]
        for end in ("", "_out")
    ]
    outputs = tuple(f"{name}_out" for name in values)
    model = engine_model(tmp_path, model_of(nodes, *sides), inputs=tuple(values), outputs=outputs)
    with OnnxRuntime().ready(dataclasses.replace(unit, is_here=True)) as run:
        done = run(EngineTask(model, "cpu", values, 1, 0, 1, C))
    for name, value in values.items():
        found = done.outputs[f"{name}_out"]
        assert (found.dtype, found.shape) == (value.dtype, value.shape) and (found == value).all(), name


def test_options_reach_the_library(unit: EngineUnit, tmp_path: Path) -> None:
    """Azure's is the only other provider of the package for CPUs; it takes no node."""
    done = rounds_of(unit, tmp_path, {**C, "provider": "Azure", "session.intra_op.allow_spinning": "0"}, None)
    assert done.settings["nodes"] == {"CPUExecutionProvider": 5} and done.settings["provider"] == "Azure"
    with pytest.raises(DeviceError, match="onnxruntime refuses the model: QNN execution provider is not supported"):
        rounds_of(unit, tmp_path, {**C, "provider": "QNN"})
    with pytest.raises(DeviceError, match="onnxruntime refuses the model: this build has no execution provider NNAPI"):
        rounds_of(unit, tmp_path, {**C, "provider": "NNAPI"})
    with pytest.raises(DeviceError, match="Processor id must consist of only digits: no CPUs"):
        rounds_of(unit, tmp_path, {**C, "session.intra_op_thread_affinities": "no CPUs"}, 2)


def test_a_unit_without_python_takes_the_library_of_the_wheel(
    unit: EngineUnit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wheels, "PYTHON", "no-such-python3")
    with package_library(unit, "onnxruntime", "onnxruntime", "", OnnxRuntime.library) as installed:
        wheel = tmp_path / "onnxruntime-1.2.3-cp311-cp311-manylinux_2_28_x86_64.whl"
        with zipfile.ZipFile(wheel, "w") as file:
            file.write(installed.library, "onnxruntime/capi/libonnxruntime.so.1.2.3")
    asked = []

    def fetched(packages: list[str], python: wheels.UnitPython) -> list[Path]:
        asked.append((*packages, python.glibc))
        return [wheel]

    monkeypatch.setattr("farm.engines.c_library.fetch_wheels", fetched)
    with OnnxRuntime().at("1.2.3").ready(unit) as run:
        done = run(EngineTask(engine_model(tmp_path), "cpu", {"x": INPUT}, 2, 0))
    assert asked == [("onnxruntime==1.2.3", 28)], "and nothing that Python needs"
    assert (done.version, done.settings["runner"], len(done.samples_ms)) == ("1.2.3", "c", 2)
    with zipfile.ZipFile(wheel, "w") as file:
        file.writestr("onnxruntime/capi/other.so", b"")
    with (
        OnnxRuntime().at("1.2.3").ready(unit) as run,
        pytest.raises(UnsupportedError, match=r"has no libonnxruntime\.so"),
    ):
        run(EngineTask(engine_model(tmp_path), "cpu", {"x": INPUT}, 2, 0))


def test_no_wheel_is_for_android(unit: EngineUnit, tmp_path: Path) -> None:
    phone = dataclasses.replace(unit, abi="arm64-v8a")
    with (
        OnnxRuntime().ready(phone) as run,
        pytest.raises(
            UnsupportedError, match=r"for arm64-v8a, which no wheel has: name a file in engines\.yml, under libraries"
        ),
    ):
        run(EngineTask(engine_model(tmp_path), "cpu", {"x": INPUT}, 1, 0))


@pytest.mark.parametrize(("delegate", "taken"), [("xnnpack", 5), ("none", 0)])
def test_litert_does_what_its_package_does(unit: EngineUnit, tmp_path: Path, delegate: str, taken: int) -> None:
    in_c, in_python = (litert_rounds(unit, tmp_path, {**each, "delegate": delegate}) for each in (C, PYTHON))
    np.testing.assert_array_equal(in_c.outputs["y"], in_python.outputs["y"])
    assert in_c.settings["nodes"] == in_python.settings["nodes"] == {"delegate": taken, "cpu": 5 - taken}
    assert len(in_c.samples_ms) == 3 and in_c.init_ms and in_c.first_ms and in_c.peak_bytes
    assert in_c.version == in_python.version and in_c.size_bytes["engine"] < in_python.size_bytes["engine"]


def test_litert_says_which_nodes_a_delegate_takes(unit: EngineUnit, tmp_path: Path, played_delegate: Path) -> None:
    own = {**C, "delegate": str(played_delegate)}
    done = litert_rounds(unit, tmp_path, own)
    assert done.settings["nodes"] == {"delegate": 2, "cpu": 3} and len(done.hashes["delegate"]) == 64
    assert done.outputs["y"].tolist() == [[-1.0, 0.0, 0.0, -3.0]]
    with pytest.raises(DeviceError, match=r"litert refuses the model: the delegate is not made: no DSP here"):
        litert_rounds(unit, tmp_path, {**own, "delegate.fails": "no DSP here"})
    with pytest.raises(DeviceError, match=r"litert refuses the model: .*cannot open shared object"):
        litert_rounds(unit, tmp_path, {**C, "delegate": "/vendor/lib64/libnone.so"})


def test_litert_says_what_does_not_fit_the_file(unit: EngineUnit, tmp_path: Path) -> None:
    with pytest.raises(DeviceError, match="litert refuses the model: the file has no output z"):
        litert_rounds(unit, tmp_path, C, outputs=("z",))
    with pytest.raises(DeviceError, match="litert refuses the model: the file has an input that is not given"):
        litert_rounds(unit, tmp_path, C, inputs=("z",))
    (tmp_path / "bad.tflite").write_bytes(b"no model, but longer than a header")
    with pytest.raises(DeviceError, match=r"LiteRtCreateModelFromFile fails with status \d+.*its log ends: .*TFL3"):
        litert_rounds(unit, tmp_path, C, source=tmp_path / "bad.tflite")
