import hashlib
import re
from pathlib import Path

import numpy as np
import pytest

from farm import cli
from farm.config import deployment
from farm.config.deployment import Input
from farm.jobs.models.prepare import Failed, Prepared, TestData, given_inputs, prepare, prepare_all, random_input
from farm.model.fetch import Fetcher
from runtime.errors import ConfigError, ModelError, UnsupportedError
from runtime.oracle.evaluate import evaluate
from runtime.types import Algorithm, Precision
from tests.farm.model.tiny_model import tiny_model, write_deployment
from tests.runtime.caffe_networks import CaffeNet


def prepared(path: Path, check: bool = False) -> Prepared:
    found = deployment.load(path)
    return prepare(found, "tiny", Fetcher(found), check)


def test_a_model_is_converted_with_the_files_shapes_and_settings(tmp_path: Path) -> None:
    found = prepared(write_deployment(tmp_path, shape="2,3,8,8", winograd="4", obfuscate="1"))
    assert found.graph.name == "tiny"
    assert found.graph.shape("y") == (2, 5)
    options = found.options()
    assert (options.algorithms, options.obfuscate) == ((Algorithm.WINOGRAD_4,), True)
    assert found.options(("y",)).keep == ("y",)
    assert sum(len(report.changes) for report in found.reports) > 0


def test_precision_follows_runtime_and_data_type(tmp_path: Path) -> None:
    for written, on_cpu, on_gpu in (
        ("fp16_fp32", Precision.FP16_STORAGE, Precision.FP16_STORAGE),
        ("fp16_fp16", Precision.FP16, Precision.FP16),
        ("fp32", Precision.FP32, Precision.FP32),
    ):
        found = prepared(write_deployment(tmp_path, data_type=written))
        assert (found.precision("cpu"), found.precision("gpu")) == (on_cpu, on_gpu)


def test_check_tensors_are_outputs_only_where_they_are_compared(tmp_path: Path) -> None:
    path = write_deployment(tmp_path, check_tensors="[act, y]", check_shapes='["1,4,8,8", "1,5"]')
    assert prepared(path).graph.outputs == ["y"]
    checked = prepared(path, check=True)
    assert checked.graph.outputs == ["y", "act"]
    assert dict(checked.data_formats) == {"y": "NCHW", "act": "NONE"}


def test_an_output_shape_that_the_model_does_not_compute_is_refused(tmp_path: Path) -> None:
    path = write_deployment(tmp_path, output_shapes='["1,6"]')
    with pytest.raises(ModelError, match=re.escape("output 'y': shape 1,6, but the model computes 1,5")):
        prepared(path)


def test_model_errors_name_file_line_and_model(tmp_path: Path) -> None:
    path = write_deployment(tmp_path, tiny_model(op="Det"))
    with pytest.raises(UnsupportedError, match=rf"^{re.escape(str(path))}:4: models.tiny: .*'act'.*Det"):
        prepared(path)


def test_a_model_that_fails_does_not_keep_the_others(tmp_path: Path) -> None:
    path = write_deployment(tmp_path)
    (tmp_path / "bad.onnx").write_bytes(b"no model")
    text = path.read_text()
    second = text[text.index("  tiny:") :].replace("tiny:", "bad:").replace("tiny.onnx", "bad.onnx")
    path.write_text(text + second)
    good, bad = prepare_all(deployment.load(path))
    assert isinstance(good, Prepared) and good.name == "tiny"
    assert isinstance(bad, Failed) and "not an ONNX model" in str(bad.error)


def test_random_inputs_are_the_same_each_time_and_in_range() -> None:
    first = Input("a", (1, 3, 50, 50), "float32", "NCHW", (2.0, 3.0))
    x = random_input(first)
    assert x.dtype == np.float32 and x.shape == first.shape
    assert 2.0 <= x.min() < 2.01 and 2.99 < x.max() <= 3.0
    np.testing.assert_array_equal(x, random_input(first))
    assert not np.array_equal(x, random_input(Input("b", first.shape, "float32", "NCHW", (2.0, 3.0))))


def test_given_inputs_take_the_place_of_noise(tmp_path: Path) -> None:
    found = prepared(write_deployment(tmp_path))
    x = np.full((1, 3, 8, 8), 0.5, np.float32)
    data = TestData(found, {"x": x})
    np.testing.assert_array_equal(data.inputs["x"], x)
    assert data.expected["y"].shape == (1, 5)


A = Input("a", (2,), "float32", "NONE", (0, 1))
B = Input("b=c", (2,), "float32", "NONE", (0, 1))


def test_input_words_name_tensor_and_file(tmp_path: Path) -> None:
    path = tmp_path / "a.npy"
    np.save(path, np.array([1, 2], np.float32))
    assert set(given_inputs([str(path)], [A])) == {"a"}
    assert set(given_inputs([f"a={path}"], [A, B])) == {"a"}


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["{file}"], "write NAME=FILE.npy; the model's inputs are 'a', 'b=c'"),
        (["z={file}"], "write NAME=FILE.npy; the model's inputs are 'a', 'b=c'"),
        (["a={file}", "a={file}"], "the input 'a' is given twice"),
        (["a={file}.gone"], "does not exist"),
    ],
)
def test_input_words_that_do_not_fit_are_refused(tmp_path: Path, words: list[str], text: str) -> None:
    path = tmp_path / "a.npy"
    np.save(path, np.array([1, 2], np.float32))
    with pytest.raises(ConfigError, match=re.escape(text)):
        given_inputs([word.format(file=path) for word in words], [A, B])


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


def prepared_caffe(path: Path, check: bool = False) -> Prepared:
    source = deployment.load(path)
    return prepare(source, "net", Fetcher(source), check)


def test_a_caffe_network_is_converted_and_compared(tmp_path: Path) -> None:
    found = prepared_caffe(write(tmp_path), check=True)
    assert (found.graph.shape("prob"), found.graph.shape("conv")) == ((1, 5), (1, 4, 8, 8))
    data = TestData(found, {})
    values = evaluate(found.graph, data.inputs)
    for name in ("prob", "conv"):
        np.testing.assert_allclose(values[name], data.expected[name], rtol=1e-4, atol=1e-6)


def test_the_first_report_says_what_the_import_did(tmp_path: Path) -> None:
    first = prepared_caffe(write(tmp_path)).reports[0]
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
    found = prepared_caffe(path)
    assert (found.inputs[0].data_format, found.outputs[0].data_format) == (order, order)
    data = TestData(found, {})
    values = evaluate(found.graph, data.inputs)
    assert data.inputs["data"].shape == tuple(map(int, given.split(",")))
    np.testing.assert_allclose(values["pool"], data.expected["pool"], rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("file", ["model", "weights"])
def test_both_checksums_are_verified(tmp_path: Path, file: str) -> None:
    key = {"model": "model_sha256_checksum", "weights": "weight_sha256_checksum"}[file]
    with pytest.raises(ConfigError, match=f"not {'0' * 64} as {key} says"):
        prepared_caffe(write(tmp_path, **{file: "0" * 64}))


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
