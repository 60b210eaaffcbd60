"""TFLite models against LiteRT's interpreter."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest

import farm
from farm.emulation.played_gpu import played_environment
from runtime.errors import ModelError, UnsupportedError
from runtime.frameworks import process
from runtime.frameworks.request import FrameworkRequest
from runtime.oracle.evaluate import evaluate
from tests.frameworks.deployments import FUNCTIONS_AND_LAYERS, assert_agrees, prepared, write

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("source", "output"),
    [
        ("serving_default_image:0", "StatefulPartitionedCall_1:0"),
        ("serving_default_image", "StatefulPartitionedCall_1"),
        ("image", "output_0"),
    ],
)
def test_a_float_model_agrees_with_litert(tmp_path: Path, tensorflow_models: Path, source: str, output: str) -> None:
    path = write(tmp_path, "tflite", tensorflow_models / "net.tflite", source, output=output)
    assert assert_agrees(prepared(path, tmp_path))[output].shape == (1, 5)


@pytest.mark.parametrize("name", FUNCTIONS_AND_LAYERS[1:])
def test_functions_and_layers_over_time_agree_with_litert(tmp_path: Path, tensorflow_models: Path, name: str) -> None:
    path = write(tmp_path, "tflite", tensorflow_models / f"{name}.tflite", "image", "2,6,4", "output_0")
    assert_agrees(prepared(path, tmp_path))


@pytest.mark.parametrize(
    ("source", "shape", "text"),
    [
        ("imagee", "1,16,16,3", "input tensor 'imagee' is not in the model, did you mean 'image'?"),
        ("image", "1,3,16,16", "input 'image': shape 1,3,16,16, but the model reads 1,16,16,3"),
    ],
)
def test_refusals(tmp_path: Path, tensorflow_models: Path, source: str, shape: str, text: str) -> None:
    path = write(tmp_path, "tflite", tensorflow_models / "net.tflite", source, shape, "output_0")
    with pytest.raises(ModelError) as caught:
        prepared(path, tmp_path)
    assert text in str(caught.value)


def test_a_truncated_file(tmp_path: Path, tensorflow_models: Path) -> None:
    content = (tensorflow_models / "net.tflite").read_bytes()
    (tmp_path / "cut.tflite").write_bytes(content[: len(content) // 2])
    path = write(tmp_path, "tflite", tmp_path / "cut.tflite", output="output_0")
    with pytest.raises(ModelError, match="LiteRT"):
        prepared(path, tmp_path)


BAD_STEPS = {
    "a scale of 0": ("<f", 0.0, "scale 0; a positive number is needed"),
    "a negative scale": ("<f", -0.5, "scale -0.5; a positive number is needed"),
    "no number": ("<f", np.nan, "scale nan; a positive number is needed"),
    "a zero point beyond its type": ("<q", 300, "zero point 300 lies outside of -128 to 127"),
}


@pytest.mark.filterwarnings("ignore::UserWarning")  # LiteRT tells where a part of it will move
@pytest.mark.parametrize("name", BAD_STEPS)
def test_scales_and_zero_points_that_make_no_sense(tmp_path: Path, tensorflow_models: Path, name: str) -> None:
    """Those of the output, whose bytes in the file are told by the interpreter."""
    from ai_edge_litert.interpreter import Interpreter

    form, value, text = BAD_STEPS[name]
    source = tensorflow_models / "integer.tflite"
    (detail,) = Interpreter(str(source)).get_output_details()
    own = struct.pack(form, detail["quantization"][0 if form == "<f" else 1])
    content = source.read_bytes()
    assert own in content
    (tmp_path / "bad.tflite").write_bytes(content.replace(own, struct.pack(form, value)))
    path = write(tmp_path, "tflite", tmp_path / "bad.tflite", output="output_0", input_data_types="[int8]")
    with pytest.raises(ModelError) as caught:
        prepared(path, tmp_path)
    assert text in str(caught.value) and "tensor '" in str(caught.value)


def test_scales_along_a_wrong_axis(tmp_path: Path, tensorflow_models: Path) -> None:
    """Those of the first filter that has several; LiteRT counts them."""
    from tensorflow.lite.tools import flatbuffer_utils

    model = flatbuffer_utils.read_model(str(tensorflow_models / "integer.tflite"))
    steps = [each.quantization for each in model.subgraphs[0].tensors if each.quantization]
    next(each for each in steps if each.scale is not None and len(each.scale) > 1).quantizedDimension = 1
    flatbuffer_utils.write_model(model, str(tmp_path / "bad.tflite"))
    path = write(tmp_path, "tflite", tmp_path / "bad.tflite", output="output_0", input_data_types="[int8]")
    with pytest.raises(ModelError, match=r"LiteRT refuses the model: .*invalid quantization parameters") as caught:
        prepared(path, tmp_path)
    assert "\n" not in str(caught.value)


def test_an_integer_model_as_onnx_agrees_within_one_step(tmp_path: Path, tensorflow_models: Path) -> None:
    """The conversion alone, computed by ONNX Runtime."""
    model = str(tensorflow_models / "integer.tflite")
    request = FrameworkRequest("tflite", model, (("image", (1, 16, 16, 3)),), ("output_0",))
    image = np.random.default_rng(0).integers(-128, 128, (1, 16, 16, 3), np.int8)
    np.savez(tmp_path / process.INPUTS, **{"0": image})
    process.run_program("convert", request, tmp_path)
    process.run_program("run", request, tmp_path)
    session = onnxruntime.InferenceSession(str(tmp_path / process.MODEL), providers=["CPUExecutionProvider"])
    (computed,) = session.run(["output_0"], {"image": image})
    with np.load(tmp_path / process.OUTPUTS) as outputs:
        expected = outputs["0"]
    assert computed.dtype == expected.dtype == np.int8
    assert np.mean(np.abs(computed.astype(int) - expected.astype(int)) <= 1) >= 0.99


def test_an_integer_model_agrees_with_litert_within_one_step(tmp_path: Path, tensorflow_models: Path) -> None:
    path = write(tmp_path, "tflite", tensorflow_models / "integer.tflite", output="output_0", input_data_types="[int8]")
    try:
        found = prepared(path, tmp_path)
    except (UnsupportedError, ModelError) as error:
        pytest.skip(f"not there yet: {error}")
    outputs = assert_agrees(found)
    assert outputs["output_0"].dtype == np.int8


SAMPLES = 8
OPERATORS_IMAGE = (1, 8, 8, 16)
# What units interpolate and normalise in floats.
IN_FLOATS = {"bilinear", "resized", "softmax"}


@pytest.mark.filterwarnings("ignore::UserWarning")  # LiteRT tells where a part of it will move
def test_integer_operators_agree_with_the_reference_kernels(tmp_path: Path, tensorflow_models: Path) -> None:
    """Bit for bit; each operator reads the model's input. Floats, which some branches end with, nearly so."""
    reference, path = _operators(tmp_path, tensorflow_models)
    graph, random = prepared(path, tmp_path).graph, np.random.default_rng(0)
    images = [random.integers(-128, 128, OPERATORS_IMAGE, np.int8) for _ in range(SAMPLES)]
    assert _away([(evaluate(graph, {"image": image}), reference(image=image)) for image in images]) == {}


@pytest.mark.opencl
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_phone_agrees_with_the_reference_kernels(
    tmp_path: Path, tensorflow_models: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bit for bit: its CPU, and a GPU with dot products."""
    reference, path = _operators(tmp_path, tensorflow_models)
    image = np.random.default_rng(1).integers(-128, 128, OPERATORS_IMAGE, np.int8)
    np.save(tmp_path / "image.npy", image)
    monkeypatch.chdir(tmp_path)
    for name, value in played_environment("mali-g78").items():
        monkeypatch.setenv(name, value)
    given = {"inputs": ["image.npy"], "output_folder": "made", "rounds": 1, "warmup": 0}
    rows = list(farm.run(path, farm.units(device=["host"]), **given))
    assert [(row.status.value, row.reason) for row in rows] == [("ok", "")] * 2
    expected = reference(image=image)
    for runtime in ("cpu", "gpu"):
        found = {name: np.load(f"made/net.host.{runtime}.{name}.npy") for name in expected}
        assert _away([(found, expected)]).keys() <= IN_FLOATS, runtime


def _operators(folder: Path, models: Path) -> tuple[Any, Path]:
    """LiteRT's reference kernels, and a deployment file, of the model of single operators."""
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    model = models / "operators.tflite"
    interpreter = Interpreter(str(model), experimental_op_resolver_type=OpResolverType.BUILTIN_REF)
    reference = interpreter.get_signature_runner()
    names, shape = list(reference.get_output_details()), ",".join(map(str, OPERATORS_IMAGE))
    return reference, write(folder, "tflite", model, shape=shape, output=", ".join(names), input_data_types="[int8]")


def _away(pairs: Sequence[tuple[Mapping[str, Any], Mapping[str, Any]]]) -> dict[str, float]:
    """How far results are from what is expected, where they are."""
    found = {
        name: max(float(np.abs(a[name].astype(np.float64) - b[name]).max()) for a, b in pairs) for name in pairs[0][1]
    }
    return {name: steps for name, steps in found.items() if steps > 1e-5}
