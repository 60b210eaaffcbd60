"""A deployment file of a Caffe network: both files with their checksums, converted and compared like any other."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pytest

from farm import cli
from farm.config import deployment
from farm.jobs.models.prepare import Prepared, TestData, prepare
from farm.model.fetch import Fetcher
from runtime.errors import ConfigError
from runtime.oracle.evaluate import evaluate
from tests.runtime.caffe_networks import CaffeNet

DEPLOYMENT = """library_name: caffelib
target_abis: [host]
models:
  net:
    platform: caffe
    model_file_path: net.prototxt
    weight_file_path: net.caffemodel
    model_sha256_checksum: {model}
    weight_sha256_checksum: {weights}
    subgraphs:
      - input_tensors: data
        input_shapes: 1,8,8,3
        input_data_formats: NHWC
        output_tensors: prob
        output_shapes: 1,5
        check_tensors: conv
    runtime: cpu+gpu
    data_type: fp32_fp32
"""


def write(folder: Path, **replaced: str) -> Path:
    """net.prototxt for a batch of 10, net.caffemodel and net.yml; returns the last. `replaced` are checksums."""
    net = CaffeNet()
    x = net.pool("pool", net.conv("conv", net.input("data", (10, 3, 8, 8)), 4, 3, pad=1), "AVE", "global_pooling: true")
    net.layer("Softmax", "prob", [net.dense("fc", x, 4, 5)], ["prob"])
    net.layer("SoftmaxWithLoss", "loss", ["fc", "label"], ["loss"])
    files = {"model": folder / "net.prototxt", "weights": folder / "net.caffemodel"}
    files["model"].write_text(net.text())
    files["weights"].write_bytes(net.weights())
    checksums = {name: hashlib.sha256(path.read_bytes()).hexdigest() for name, path in files.items()}
    path = folder / "net.yml"
    path.write_text(DEPLOYMENT.format(**(checksums | replaced)))
    return path


def prepared(path: Path, check: bool = False) -> Prepared:
    source = deployment.load(path)
    return prepare(source, "net", Fetcher(source), check)


def test_a_caffe_network_is_converted_and_compared(tmp_path: Path) -> None:
    found = prepared(write(tmp_path), check=True)
    assert (found.graph.shape("prob"), found.graph.shape("conv")) == ((1, 5), (1, 4, 8, 8))
    data = TestData(found, {})
    values = evaluate(found.graph, data.inputs)
    for name in ("prob", "conv"):
        np.testing.assert_allclose(values[name], data.expected[name], rtol=1e-4, atol=1e-6)


def test_the_first_report_says_what_the_import_did(tmp_path: Path) -> None:
    first = prepared(write(tmp_path)).reports[0]
    assert (first.name, first.changes) == (
        "caffe import",
        [
            "layer 'loss' (SoftmaxWithLoss): left out, only training needs it",
            "input 'data': 1,3,8,8 as deployed, not 10,3,8,8",
        ],
    )


# Input and output shape as the file writes them -> the order of both.
ORDERS = {
    "MACE's order": ("1,8,8,3", "1,1,1,4", "NHWC"),
    "MACE's order, another size": ("1,6,12,3", "1,1,1,4", "NHWC"),
    "MACE's order, no output shape": ("1,8,8,3", "", "NHWC"),
    "Caffe's order": ("1,3,8,8", "1,4,1,1", "NCHW"),
    "both fit": ("1,3,8,3", "", "NCHW"),
}


@pytest.mark.parametrize(("given", "shape", "order"), ORDERS.values(), ids=ORDERS)
def test_shapes_in_maces_order_need_no_word(tmp_path: Path, given: str, shape: str, order: str) -> None:
    path = write(tmp_path)
    text = path.read_text().replace("input_shapes: 1,8,8,3", f"input_shapes: {given}")
    text = text.replace("        input_data_formats: NHWC\n", "").replace(
        "output_tensors: prob", "output_tensors: pool"
    )
    path.write_text(text.replace("        output_shapes: 1,5\n", f"        output_shapes: {shape}\n" if shape else ""))
    found = prepared(path)
    assert (found.inputs[0].data_format, found.outputs[0].data_format) == (order, order)
    data = TestData(found, {})
    values = evaluate(found.graph, data.inputs)
    assert data.inputs["data"].shape == tuple(map(int, given.split(",")))
    np.testing.assert_allclose(values["pool"], data.expected["pool"], rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("file", ["model", "weights"])
def test_both_checksums_are_verified(tmp_path: Path, file: str) -> None:
    key = {"model": "model_sha256_checksum", "weights": "weight_sha256_checksum"}[file]
    with pytest.raises(ConfigError, match=f"not {'0' * 64} as {key} says"):
        prepared(write(tmp_path, **{file: "0" * 64}))


def test_a_bad_network_is_one_line_and_exit_status_2(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    path = write(tmp_path)
    path.write_text(path.read_text().replace("output_tensors: prob", "output_tensors: probe"))
    assert cli.call(["convert", str(path)]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1
    assert lines[0].endswith("net.yml:4: models.net: output tensor 'probe' is not in the network, did you mean 'prob'?")
