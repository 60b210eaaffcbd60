"""`farm run --example`: the C API's example application on a unit, its outputs compared."""

import json
from pathlib import Path

import numpy as np
import onnx
import pytest

from farm.jobs import example
from tests.farm.conftest import CallFarm
from tests.farm.emulated_units import EmulatedUnits
from tests.farm.model.tiny_model import write_deployment


@pytest.mark.slow
@pytest.mark.opencl
def test_the_example_runs_a_model_on_this_machine(farm: CallFarm, own_folder: Path) -> None:
    write_deployment(own_folder, runtime="cpu+gpu")
    status, out, err = farm(
        *("run", "tiny.yml", "--example", "--round", "3", "--warmup", "2", "--json", "--output_dir", "out")
    )
    rows = json.loads(out)["rows"]
    assert (status, [row["runtime"] for row in rows]) == (0, ["cpu", "gpu"]), err
    for row in rows:
        assert row["cosine"] > 0.9999 and len(row["latency_ms"]["samples"]) == 3 and row["init_ms"] > 0
        assert row["first_ms"] > 0 and row["settings"]["example"] is True
    assert [row["kernels"]["match"] for row in rows] == ["none", "none"] and rows[1]["kernels"]["built"] > 0
    cpu, gpu = (np.load(f"out/tiny.host.{runtime}.y.npy") for runtime in ("cpu", "gpu"))
    np.testing.assert_allclose(cpu, gpu, rtol=1e-3, atol=1e-4)


@pytest.mark.slow
@pytest.mark.opencl
def test_the_example_runs_a_model_on_a_phone(emulated: EmulatedUnits) -> None:
    phone = emulated.phone()
    done = emulated.run("--example")
    assert (done.status, done.row["status"]) == (0, "ok"), done
    assert done.row["cosine"] > 0.9999 and done.row["settings"]["example"] is True
    assert list((phone.root / "data/local/tmp/farm/objects").glob("*/infer")), "the application lies there by its name"


INTEGERS = """\
library_name: ids
target_abis: [host]
models:
  ids:
    platform: onnx
    model_file_path: ids.onnx
    runtime: cpu
    subgraphs:
      - input_tensors: [ids]
        input_shapes: ["1,6"]
        input_data_types: [int64]
        input_data_formats: [NONE]
        output_tensors: [y]
        output_shapes: ["1,6"]
        output_data_types: [int64]
        output_data_formats: [NONE]
"""


@pytest.mark.slow
def test_the_example_moves_tensors_of_their_own_type(farm: CallFarm, own_folder: Path) -> None:
    tensors = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.INT64, [1, 6]) for name in ("ids", "y")]
    node = onnx.helper.make_node("Add", ["ids", "ids"], ["y"])
    graph = onnx.helper.make_graph([node], "ids", tensors[:1], tensors[1:])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)
    (own_folder / "ids.onnx").write_bytes(model.SerializeToString())
    (own_folder / "ids.yml").write_text(INTEGERS)
    status, out, err = farm("run", "ids.yml", "--example", "--validate", "--json")
    (row,) = json.loads(out)["rows"]
    assert (status, row["status"], row["max_abs_error"]) == (0, "ok", 0.0), err


@pytest.mark.slow
def test_an_example_that_fails_says_why(farm: CallFarm, own_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_deployment(own_folder, runtime="cpu")
    monkeypatch.setattr(example, "_written", lambda *_: [])
    status, out, _ = farm("run", "tiny.yml", "--example", "--json")
    (row,) = json.loads(out)["rows"]
    assert (status, row["status"]) == (1, "failed")
    assert row["reason"] == "the example 'infer' ended with exit status 2: infer: no file for the input 'x'"


@pytest.mark.parametrize("other", [("--layers",), ("--input_dir", ".")])
def test_what_the_example_cannot_do_is_refused(farm: CallFarm, own_folder: Path, other: tuple[str, ...]) -> None:
    write_deployment(own_folder)
    status, _, err = farm("run", "tiny.yml", "--example", *other)
    assert status == 2 and f"--example runs one input once through the C API, without {other[0]}" in err
