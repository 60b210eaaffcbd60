"""Deployment files as MACE's users have them: read as they are, or refused key by key with what to do."""

import json
from pathlib import Path

import numpy as np
import onnx
import pytest

from farm.config import deployment
from farm.jobs.models.prepare import Failed, Prepared, prepare_all
from runtime.errors import ConfigError
from tests.farm.conftest import CallFarm
from tests.farm.model.tiny_model import tiny_model

# In the manner of a model zoo: shapes in NHWC without a word on it, numbers for yes and no, one item a line.
SAMPLE = """\
# The name of library
library_name: tiny-v1
target_abis: [host]
model_graph_format: file
model_data_format: file
models:
  tiny_v1: # model tag, which is used to load the model
    platform: onnx
    model_file_path: tiny.onnx
    subgraphs:
      - input_tensors:
          - x
        input_shapes:
          - 1,8,8,3
        input_ranges:
          - -1.0,1.0
        output_tensors:
          - act
          - y
        output_shapes:
          - 1,8,8,4
          - 1,5
    # framework that validates
    backend: tensorflow
    runtime: cpu
    data_type: fp32
    limit_opencl_kernel_time: 0
    nothing_more: 0
    obfuscate: 0
    quantize: 0
    quantize_large_weights: 0
    winograd: 0
    validation_threshold:
      CPU: 0.999
      GPU: 0.99
"""
TEXT = SAMPLE.replace("    nothing_more: 0\n", "")


def written(folder: Path, text: str = TEXT) -> Path:
    (folder / "tiny.onnx").write_bytes(tiny_model().SerializeToString())
    path = folder / "tiny.yml"
    path.write_text(text)
    return path


def prepared(folder: Path, text: str = TEXT) -> Prepared | Failed:
    (found,) = prepare_all(deployment.load(written(folder, text)))
    return found


@pytest.mark.parametrize("backend", ["tensorflow", "caffe2", "pytorch", "onnxruntime"])
def test_a_sample_file_is_read(tmp_path: Path, backend: str) -> None:
    read = deployment.load(written(tmp_path, TEXT.replace("backend: tensorflow", f"backend: {backend}")))
    model = read.models["tiny_v1"]
    assert (model.quantize, model.limit_opencl_kernel_time, model.obfuscate, model.winograd) == (False, False, False, 0)
    assert model.validation_threshold == {"cpu": 0.999, "gpu": 0.99}


@pytest.mark.slow
def test_a_sample_file_runs_in_its_own_order(farm: CallFarm, own_folder: Path) -> None:
    written(own_folder)
    np.save("x.npy", np.random.default_rng(3).normal(size=(1, 8, 8, 3)).astype("f4"))
    status, out, err = farm(
        "run", "tiny.yml", "--validate", "--input", "x.npy", "--output_dir", "kept", "--json", "--round", "1"
    )
    (row,) = json.loads(out)["rows"]
    assert (status, row["status"]) == (0, "ok"), err
    assert np.load("kept/tiny_v1.host.cpu.act.npy").shape == (1, 8, 8, 4)


def test_the_only_order_that_fits_is_taken(tmp_path: Path) -> None:
    nhwc = prepared(tmp_path)
    nchw = prepared(tmp_path, TEXT.replace("1,8,8,3", "1,3,8,8").replace("1,8,8,4", "1,4,8,8"))
    assert isinstance(nhwc, Prepared) and isinstance(nchw, Prepared)
    formats = [[each.data_format for each in (*model.inputs, *model.outputs)] for model in (nhwc, nchw)]
    assert formats == [["NHWC", "NHWC", "NCHW"], ["NCHW", "NCHW", "NCHW"]], "1,5 is no image"


def test_a_format_that_is_named_stands(tmp_path: Path) -> None:
    text = TEXT.replace("        input_ranges", "        input_data_formats: NCHW\n        input_ranges")
    refused = prepared(tmp_path, text)
    assert isinstance(refused, Failed) and "shape 1,8,8,3, but the model reads ?,3,8,8" in str(refused.error)


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("          - act\n", "          - square\n", "output 'square': the shape 1,4,4,4 fits the model's 1,4,4,4 in"),
        (
            "        output_shapes:\n          - 1,8,8,4\n          - 1,5\n",
            "",
            "output 'act': an input is NHWC, and the",
        ),
        ("          - x\n", "          - free\n", "input 'free': the shape 1,8,8,3 fits the model's ?,?,?,? in both"),
    ],
    ids=["same sizes", "no shape", "any size"],
)
def test_where_both_orders_fit_the_user_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, old: str, new: str, told: str
) -> None:
    text = TEXT.replace(old, new)
    if "square" in new:
        text = text.replace("1,8,8,4", "1,4,4,4")
    path = written(tmp_path, text)
    model = tiny_model()
    if "free" in new:
        model.graph.input[0].name = "free"
        model.graph.node[0].input[0] = "free"
        for size in model.graph.input[0].type.tensor_type.shape.dim:
            size.dim_param = "any"
    if "square" in new:
        model.graph.node.insert(2, _halved())
    (tmp_path / "tiny.onnx").write_bytes(model.SerializeToString())
    (failed,) = prepare_all(deployment.load(path))
    assert isinstance(failed, Failed) and told in str(failed.error)
    assert "put_data_formats: NHWC or NCHW" in str(failed.error)


def _halved() -> onnx.NodeProto:
    return onnx.helper.make_node("MaxPool", ["act"], ["square"], "square", kernel_shape=[2, 2], strides=[2, 2])


# Every key that MACE's documentation names, with a value of its own.
SUBGRAPH_KEYS = {
    "input_data_types": "float32",
    "input_data_formats": "NHWC",
    "output_data_formats": "NHWC",
    "validation_inputs_data": "x.npy",
    "check_tensors": "act",
}
MODEL_KEYS = {
    "model_sha256_checksum": "0" * 64,
    "weight_file_path": "net.caffemodel",
    "weight_sha256_checksum": "0" * 64,
    "quantize_range_file": "overall_range",
    "runtime": "dsp",
    "data_type": "uint8",
    "platform": "tensorflow",
    "backend": "tensorflow",
}


def answer(folder: Path, text: str) -> str:
    """Empty where a file is read, else the error."""
    try:
        deployment.load(written(folder, text))
    except ConfigError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("key", SUBGRAPH_KEYS)
def test_keys_of_a_subgraph_are_honoured(tmp_path: Path, key: str) -> None:
    text = TEXT.replace("        input_ranges", f"        {key}: {SUBGRAPH_KEYS[key]}\n        input_ranges")
    assert answer(tmp_path, text) == ""


@pytest.mark.parametrize("key", MODEL_KEYS)
def test_keys_of_a_model_are_honoured_or_refused_by_name(tmp_path: Path, key: str) -> None:
    lines = [line for line in TEXT.splitlines() if not line.startswith(f"    {key}:")]
    at = next(number for number, line in enumerate(lines) if "subgraphs:" in line)
    told = answer(tmp_path, "\n".join([*lines[:at], f"    {key}: {MODEL_KEYS[key]}", *lines[at:]]))
    assert told == "" or f"models.tiny_v1.{key}: " in told
    assert bool(told) == (key not in ("platform", "model_sha256_checksum", "backend", "quantize_range_file"))
    assert "unknown key" not in told


def test_quantizing_needs_ranges(tmp_path: Path) -> None:
    told = answer(tmp_path, TEXT.replace("quantize: 0", "quantize: 1"))
    assert "models.tiny_v1.quantize: quantize_range_file has to name a file of ranges: `farm quantize" in told
    assert answer(tmp_path, TEXT.replace("quantize: 0", "quantize: 1\n    quantize_range_file: overall_range")) == ""


def test_a_key_of_nobody_is_refused(tmp_path: Path) -> None:
    assert "models.tiny_v1.nothing_more: unknown key" in answer(tmp_path, SAMPLE)
