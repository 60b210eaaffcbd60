from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from farm.config import deployment
from farm.config.deployment import Input
from farm.jobs.models.prepare import Failed, Prepared, TestData, given_inputs, prepare, prepare_all, random_input
from farm.model.fetch import Fetcher
from runtime.errors import ConfigError, ModelError, UnsupportedError
from runtime.types import Algorithm, Precision
from tests.farm.model.tiny_model import tiny_model, write_deployment


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
