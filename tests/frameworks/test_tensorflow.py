"""TensorFlow and Keras models in every form, against TensorFlow; what cannot be read is refused in one line."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import farm
from farm.config.given_model import GivenModel
from farm.jobs.models.prepare import prepare
from farm.model import deployments, framework_model
from farm.model.fetch import Fetcher
from runtime.errors import ConfigError, FarmError, ModelError
from tests.farm.model.tiny_model import tiny_model
from tests.frameworks.deployments import FUNCTIONS_AND_LAYERS, OVER_TIME, assert_agrees, prepared, write

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("platform", "file", "source", "output"),
    [
        ("keras", "net.keras", "image", "scores"),
        ("keras", "net.h5", "image:0", "scores:0"),
        ("tensorflow", "frozen.pb", "image:0", "scores"),
        ("tensorflow", "saved", "image", "output_0"),
        ("tensorflow", "saved", "serving_default_image:0", "StatefulPartitionedCall_1:0"),
    ],
)
def test_every_form_agrees_with_tensorflow(
    tmp_path: Path, tensorflow_models: Path, platform: str, file: str, source: str, output: str
) -> None:
    path = write(tmp_path, platform, tensorflow_models / file, source, "2,16,16,3", output)
    outputs = assert_agrees(prepared(path, tmp_path))
    assert {name: value.shape for name, value in outputs.items()} == {output: (2, 5)}


def test_a_quantisation_aware_graph_of_tensorflow_1(tmp_path: Path, tensorflow_models: Path) -> None:
    """Rounded ranges, as integers would be computed; the run on farmrt agrees with TensorFlow too."""
    path = write(
        tmp_path, "tensorflow", tensorflow_models / "fake_quant.pb", shape="2,16,16,3", check_tensors="[quantised]"
    )
    outputs = assert_agrees(prepared(path, tmp_path, check=True))
    steps = outputs["quantised"] / (2 / 255)
    np.testing.assert_allclose(steps, np.round(steps), atol=1e-3)
    rows = list(farm.run(path, farm.units(device=["host"]), rounds=1, validate=True))
    assert [(row.runtime, row.status.value) for row in rows] == [("cpu", "ok"), ("gpu", "ok")]


FAKE_QUANTS = ("per_channel", "narrow", "four_bits", "sixteen_bits", "above_zero")


def test_each_way_of_fake_quantisation(tmp_path: Path, tensorflow_models: Path) -> None:
    model = tensorflow_models / "fake_quants.pb"
    outputs = assert_agrees(prepared(write(tmp_path, "tensorflow", model, output=", ".join(FAKE_QUANTS)), tmp_path))
    assert 4 < len(np.unique(outputs["four_bits"])) <= 16 < len(np.unique(outputs["narrow"]))


@pytest.mark.parametrize(("name", "text"), [("computed", "its range is computed"), ("empty", "range is 0.9 to 0.9")])
def test_fake_quantisation_without_a_range(tmp_path: Path, tensorflow_models: Path, name: str, text: str) -> None:
    path = write(tmp_path, "tensorflow", tensorflow_models / "fake_quants.pb", output=name)
    assert text in refusal(path, tmp_path)


def test_check_tensors_are_compared_in_the_models_own_order(tmp_path: Path, tensorflow_models: Path) -> None:
    path = write(tmp_path, "keras", tensorflow_models / "net.keras", check_tensors="[act, deep]")
    outputs = assert_agrees(prepared(path, tmp_path, check=True))
    assert {name: value.shape for name, value in outputs.items()} == {
        "scores": (1, 5),
        "act": (1, 8, 8, 8),
        "deep": (1, 8, 8, 8),
    }


def test_a_model_is_cut_at_intermediate_tensors(tmp_path: Path, tensorflow_models: Path) -> None:
    path = write(tmp_path, "keras", tensorflow_models / "net.keras", "conv", "1,8,8,8", "mean")
    found = prepared(path, tmp_path)
    assert_agrees(found)
    assert [node.op for node in found.graph.nodes].count("Conv") == 1


def test_an_image_may_be_given_in_nchw_order(tmp_path: Path, tensorflow_models: Path) -> None:
    model = tensorflow_models / "net.keras"
    (tmp_path / "turned").mkdir()
    turned = write(tmp_path / "turned", "keras", model, shape="1,3,16,16", input_data_formats="NCHW", output="act")
    outputs = assert_agrees(found := prepared(turned, tmp_path))
    assert outputs["act"].shape == (1, 8, 8, 8)
    assert "Transpose" not in [node.op for node in found.graph.nodes][:1]


def test_a_converted_model_is_taken_from_the_cache(
    tmp_path: Path, tensorflow_models: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path, "keras", tensorflow_models / "net.keras")
    first = prepared(path, tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(framework_model.process, "run_program", None)
        assert prepared(path, tmp_path).source == first.source
    write(tmp_path, "keras", tensorflow_models / "net.keras", output="mean")
    assert prepared(path, tmp_path).source != first.source


def test_onnx_runtime_is_the_oracle_where_the_file_says_so(tmp_path: Path, tensorflow_models: Path) -> None:
    path = write(tmp_path, "keras", tensorflow_models / "net.keras", backend="onnxruntime")
    assert prepared(path, tmp_path).framework is None


def refusal(file: Path, cache: Path, trust_models: bool = False) -> str:
    with pytest.raises(FarmError) as caught:
        prepared(file, cache, trust_models=trust_models)
    assert isinstance(caught.value, ConfigError | ModelError) and "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    ("platform", "file", "source", "shape", "output", "text"),
    [
        ("keras", "net.keras", "imag", "1,16,16,3", "scores", "input tensor 'imag' is not in the model, did you mean"),
        ("keras", "net.keras", "image", "1,16,16,3", "score", "tensor 'score' is not in the model, did you mean"),
        ("keras", "net.keras", "image", "1,3,16,16", "scores", "shape 1,3,16,16, but the model reads ?,16,16,3"),
        ("tensorflow", "frozen.pb", "imag", "1,16,16,3", "scores", "'imag' is not in the model, did you mean 'image'?"),
        ("tensorflow", "frozen.pb", "image", "1,16,16", "scores", "shape 1,16,16, but the model reads ?,16,16,3"),
        ("tensorflow", "frozen.pb", "scores", "1,5", "image", "the model reads the input"),
        ("tensorflow", "saved", "image", "1,16,16,3", "output_1", "did you mean 'output_0'?"),
        ("keras", "net.weights.h5", "image", "1,16,16,3", "scores", "holds weights only, no layers; save the whole"),
        ("tensorflow", "unfrozen.pb", "x", "1,4", "y", "weights are missing, the graph is not frozen: it holds Va"),
        ("keras", "lambda.keras", "image", "1,4", "twice", "holds a layer Lambda 'twice', which is code; --trust"),
        ("keras", "lambda.h5", "image", "1,4", "twice", "holds a layer Lambda 'twice', which is code; --trust"),
        ("tensorflow", "reading.pb", "name", "1", "length", "touch files: ReadFile (1, the first is 'ReadFile')"),
        ("tensorflow", "net.keras", "image", "1,4", "y", "this is a Keras model (platform: keras)"),
    ],
)  # fmt: skip
def test_refusals(
    tmp_path: Path, tensorflow_models: Path, platform: str, file: str, source: str, shape: str, output: str, text: str
) -> None:
    path = write(tmp_path, platform, tensorflow_models / file, source, shape, output)
    assert text in refusal(path, tmp_path)


def test_trust_lets_code_through(tmp_path: Path, tensorflow_models: Path) -> None:
    path = write(tmp_path, "keras", tensorflow_models / "lambda.keras", "image", "1,4", "twice")
    found = prepared(path, tmp_path, trust_models=True)
    x = np.ones((1, 4), np.float32)
    assert found.framework
    np.testing.assert_array_equal(found.framework.reference_outputs({"image": x})["twice"], 2 * x)


def test_a_saved_model_without_its_weights(tmp_path: Path, tensorflow_models: Path) -> None:
    shutil.copytree(tensorflow_models / "saved", tmp_path / "saved")
    shutil.rmtree(tmp_path / "saved" / "variables")
    path = write(tmp_path, "tensorflow", tmp_path / "saved", "image", output="output_0")
    assert "its weights are missing or damaged" in refusal(path, tmp_path)


@pytest.mark.parametrize("file", ["net.keras", "net.h5", "frozen.pb"])
def test_truncated_files(tmp_path: Path, tensorflow_models: Path, file: str) -> None:
    content = (tensorflow_models / file).read_bytes()
    (tmp_path / file).write_bytes(content[: len(content) * 2 // 3])
    path = write(tmp_path, "tensorflow" if file.endswith("pb") else "keras", tmp_path / file)
    assert "or truncated; get the file again" in refusal(path, tmp_path)


def test_an_onnx_model_is_no_frozen_graph(tmp_path: Path) -> None:
    """No framework is needed to say so."""
    (tmp_path / "net.pb").write_bytes(tiny_model().SerializeToString())
    path = write(tmp_path, "tensorflow", tmp_path / "net.pb")
    assert "this is an ONNX model (platform: onnx)" in refusal(path, tmp_path)


@pytest.mark.parametrize(
    ("file", "shape"), [("net.keras", (2, 16, 16, 3)), ("saved", (2, 16, 16, 3)), ("frozen.pb", (2, 16, 16, 3))]
)
def test_a_model_file_needs_no_deployment_file(tmp_path: Path, tensorflow_models: Path, file: str, shape: Any) -> None:
    path = tensorflow_models / file
    with pytest.raises(
        ConfigError, match=r"input 'image' is \(\?, 16, 16, 3\): say its shape with --shape image=1,16,"
    ):
        deployments.of_path(path)
    source = deployments.load(GivenModel(path, (("image", shape),)))
    (name,) = source.models
    found = prepare(source, name, Fetcher(source, tmp_path))
    assert [value.shape for value in assert_agrees(found).values()] == [(2, 5)]


def test_a_tflite_file_leaves_nothing_open(tmp_path: Path, tensorflow_models: Path) -> None:
    source = deployments.of_path(tensorflow_models / "integer.tflite")
    (x,) = source.models["integer"].subgraph.inputs
    assert (x.name, x.shape, x.data_type, x.data_format) == ("image", (1, 16, 16, 3), "int8", "NHWC")
    source = deployments.of_path(tensorflow_models / "net.tflite")
    assert_agrees(prepare(source, "net", Fetcher(source, tmp_path)))


@pytest.mark.parametrize("name", FUNCTIONS_AND_LAYERS)
def test_functions_and_layers_over_time_of_a_saved_model(tmp_path: Path, tensorflow_models: Path, name: str) -> None:
    path = write(tmp_path, "tensorflow", tensorflow_models / name, "image", "2,6,4", "output_0")
    assert_agrees(prepared(path, tmp_path))


@pytest.mark.parametrize(("name", "is_lstm"), OVER_TIME.items())
def test_a_keras_layer_over_time_agrees_and_an_lstm_is_one_operator(
    tmp_path: Path, tensorflow_models: Path, name: str, is_lstm: bool
) -> None:
    path = write(tmp_path, "keras", tensorflow_models / f"{name}.keras", "image", "2,6,4")
    assert_agrees(found := prepared(path, tmp_path))
    assert ("LSTM" in [node.op for node in found.graph.nodes]) == is_lstm
