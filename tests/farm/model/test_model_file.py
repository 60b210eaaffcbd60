"""A model file becomes the deployment that a file written by hand would be; what is open or wrong is one line."""

import os
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from farm.config import deployment
from farm.config.given_model import GivenModel, given_shapes, parsed_shape
from farm.jobs.models.prepare import TestData, prepare
from farm.model import deployments
from farm.model.fetch import Fetcher
from farm.model.model_file import deployment_text, library_name
from runtime.errors import ConfigError, FarmError, ModelError
from runtime.frameworks import file_kinds
from runtime.lowering.lower import lower
from runtime.oracle.evaluate import evaluate
from runtime.target import Target
from tests.farm.model.tiny_model import model_of, tiny_model

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64


pytestmark = pytest.mark.usefixtures("own_folder")


def lookup_model() -> onnx.ModelProto:
    """ids [batch, length], mask:0 [batch, length, 1], scale [] -> out/y [batch, length, 4]."""
    nodes = [
        helper.make_node("Gather", ["table", "ids"], ["rows"], "rows"),
        helper.make_node("Mul", ["rows", "mask:0"], ["masked"], "mul"),
        helper.make_node("Mul", ["masked", "scale"], ["out/y"], "scaled"),
    ]
    inputs = [
        helper.make_tensor_value_info("ids", INT64, ["batch", "length"]),
        helper.make_tensor_value_info("mask:0", FLOAT, ["batch", "length", 1]),
        helper.make_tensor_value_info("scale", FLOAT, []),
    ]
    outputs = [helper.make_tensor_value_info("out/y", FLOAT, ["batch", "length", 4])]
    return model_of(nodes, inputs, outputs, {"table": np.arange(20.0).reshape(5, 4)})


def written(name: str, model: onnx.ModelProto | bytes | None = None) -> Path:
    content = tiny_model() if model is None else model
    path = Path(name)
    path.parent.mkdir(exist_ok=True, parents=True)
    path.write_bytes(content if isinstance(content, bytes) else content.SerializeToString())
    return path


def given(path: Path, *shapes: str) -> GivenModel:
    return GivenModel(path, tuple(map(parsed_shape, shapes)))


def refusal(path: Path, *shapes: str) -> str:
    with pytest.raises(FarmError) as caught:
        deployments.load(given(path, *shapes))
    assert caught.value.exit_status == 2 and "\n" not in str(caught.value)
    return str(caught.value)


def test_a_model_file_is_a_deployment(tmp_path: Path) -> None:
    source = deployments.load(given(written("net.onnx"), "2,3,8,8"))
    assert (source.library_name, source.target_abis, source.path) == ("net", ("host",), Path("net.onnx"))
    settings = source.models["net"]
    assert (settings.platform, settings.runtimes) == ("onnx", ("cpu", "gpu"))
    (x,) = settings.subgraph.inputs
    assert (x.name, x.shape, x.data_type) == ("x", (2, 3, 8, 8), "float32")
    assert [tensor.name for tensor in settings.subgraph.outputs] == ["y"]
    prepared = prepare(source, "net", Fetcher(source, tmp_path / "cache"))
    assert prepared.graph.shape("y") == (2, 5)


def test_an_open_number_of_samples_is_one() -> None:
    (x,) = deployments.of_path(written("net.onnx")).models["net"].subgraph.inputs
    assert x.shape == (1, 3, 8, 8)


def test_a_fixed_model_needs_nothing_and_an_ending_means_nothing() -> None:
    assert list(deployments.of_path(written("net.bin", tiny_model(batch=1))).models) == ["net"]


def test_a_deployment_file_stays_one() -> None:
    path = Path("net.yml")
    path.write_text("library_name: x\ntarget_abis: [host]\nmodels: {}\n")
    assert refusal(path) == "net.yml:3: models: at least one is needed"
    assert refusal(path, "x=1") == "net.yml: --shape is for model files; this deployment file says it in its keys"


def test_sizes_of_one_name_are_one_size(tmp_path: Path) -> None:
    source = deployments.load(given(written("net.onnx", lookup_model()), "ids=2,3"))
    shapes = {tensor.name: tensor.shape for tensor in source.models["net"].subgraph.inputs}
    assert shapes == {"ids": (2, 3), "mask:0": (2, 3, 1), "scale": ()}
    prepared = prepare(source, "net", Fetcher(source, tmp_path / "cache"))
    data = TestData(prepared, {})
    np.testing.assert_allclose(evaluate(prepared.graph, data.inputs)["out/y"], data.expected["out/y"])


def test_several_shapes_are_several_models() -> None:
    path = written("net.onnx", lookup_model())
    source = deployments.load(given(path, "ids=1,3", "ids=1,5", "scale="))
    assert list(source.models) == ["net_1x3_1x3x1", "net_1x5_1x5x1"]
    assert [model.subgraph.inputs[1].shape for model in source.models.values()] == [(1, 3, 1), (1, 5, 1)]
    assert "--shape: 2 shapes of 'mask:0', 3 of another; give one or as many" in refusal(
        path, "ids=1,3", "ids=1,4", "ids=1,5", "mask:0=1,3,1", "mask:0=1,4,1"
    )


OPEN = {
    (): "net.onnx: input 'ids' is (batch, length) and input 'mask:0' is (batch, length, 1): say their shapes with "
    "--shape ids=1,128 --shape mask:0=1,128,1",
    ("ids=1,2,3",): "net.onnx: --shape ids=1,2,3: input 'ids' is (batch, length)",
    ("id=1,2",): "net.onnx: --shape id=1,2: no input 'id', did you mean 'ids'?",
    ("1,2",): "net.onnx: --shape 1,2: which of ids, mask:0, scale? write INPUT=SIZES",
    ("ids=1,2", "ids=1,2"): "net.onnx: --shape ids=1,2: given twice",
    ("scale=1",): "net.onnx: --shape scale=1: input 'scale' is ()",
}


@pytest.mark.parametrize("shapes", OPEN)
def test_what_is_asked_for(shapes: tuple[str, ...]) -> None:
    assert refusal(written("net.onnx", lookup_model()), *shapes) == OPEN[shapes]


def test_an_image_is_asked_for_as_images_are() -> None:
    model = tiny_model()
    for dim, name in zip(model.graph.input[0].type.tensor_type.shape.dim, ("batch", "", "h", "w"), strict=True):
        dim.dim_param = name
    model.graph.input[0].type.tensor_type.shape.dim[1].dim_value = 3
    said = refusal(written("net.onnx", model))
    assert said == "net.onnx: input 'x' is (batch, 3, h, w): say its shape with --shape x=1,3,224,224"


def with_input(kind: int = FLOAT, shape: list[int] | None = None) -> onnx.ModelProto:
    value = helper.make_tensor_value_info("my input", kind, [2] if shape is None else shape)
    node = helper.make_node("Identity", ["my input"], ["y"], "id")
    return model_of([node], [value], [helper.make_tensor_value_info("y", kind, None)])


def without_outputs() -> onnx.ModelProto:
    model = tiny_model(batch=1)
    del model.graph.output[:]
    return model


WRONG = {
    "empty": (b"", "an empty file; models that can be read: ONNX, TFLite"),
    "garbage": (b"\x89PNG\r\n\x1a\n\x00", "of no kind that is known, or it is damaged"),
    "truncated": (tiny_model().SerializeToString()[:200], "not an ONNX model, or truncated; get the file again"),
    "strings": (with_input(TensorProto.STRING), "input 'my input' holds STRING; farm runs float32, float16"),
    "zero size": (with_input(shape=[0, 4]), "input 'my input' is (?, 4): say its shape with --shape 'my input=1,4'"),
    "no outputs": (without_outputs(), "the model has no outputs; farm runs models with at least one"),
    "no inputs": (
        model_of([helper.make_node("Identity", ["c"], ["y"])], [], [helper.make_tensor_value_info("y", FLOAT, [1])],
                 {"c": np.ones(1)}),
        "the model has no inputs; farm runs models with at least one",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_with_a_file_is_one_line(name: str) -> None:
    content, text = WRONG[name]
    assert refusal(written("net.onnx", content)).startswith(f"net.onnx: {text}")


@pytest.mark.parametrize("kind", ["FLOAT16", "INT64", "UINT8", "BOOL", "DOUBLE", "INT8"])
def test_every_type_of_input(tmp_path: Path, kind: str) -> None:
    source = deployments.of_path(written("net.onnx", with_input(getattr(TensorProto, kind))))
    prepared = prepare(source, "net", Fetcher(source, tmp_path / "cache"))
    data = TestData(prepared, {})
    assert data.inputs["my input"].dtype == helper.tensor_dtype_to_np_dtype(getattr(TensorProto, kind))
    np.testing.assert_allclose(evaluate(prepared.graph, data.inputs)["y"], data.expected["y"], rtol=1e-6)


def test_an_input_that_nothing_reads_is_taken(tmp_path: Path) -> None:
    """As exporters leave one that a network takes and does not need; runs and applications give it."""
    model = with_input()
    model.graph.input.append(helper.make_tensor_value_info("spare", FLOAT, [2, 3]))
    source = deployments.of_path(written("net.onnx", model))
    prepared = prepare(source, "net", Fetcher(source, tmp_path / "cache"))
    data = TestData(prepared, {})
    assert set(data.inputs) == set(prepared.graph.inputs) == {"my input", "spare"}
    plan = lower(prepared.graph, Target("host", "host", memory="cpu"))
    assert {tensor.name for tensor in plan.inputs} == set(data.inputs)


def test_a_file_that_is_missing_and_a_folder() -> None:
    assert refusal(Path("gone.onnx")) == "gone.onnx: cannot be read: No such file or directory"
    assert "a folder, but not that of a SavedModel" in refusal(Path())


def test_weights_beside_the_file_go_with_it(tmp_path: Path) -> None:
    Path("sub").mkdir()
    onnx.save(tiny_model(batch=1), "sub/net.onnx", save_as_external_data=True, location="net.data", size_threshold=0)
    source = deployments.of_path(Path("sub/net.onnx"))
    assert prepare(source, "net", Fetcher(source, tmp_path / "cache")).graph.constants
    Path("sub/net.data").unlink()
    with pytest.raises(ModelError, match=r"^sub/net\.onnx: .*tensor '\w+': its file 'net\.data' cannot be read"):
        prepare(source, "net", Fetcher(source, tmp_path / "cache"))


def test_an_operator_that_is_not_supported_names_the_file(tmp_path: Path) -> None:
    source = deployments.of_path(written("net.onnx", tiny_model(batch=1, op="Det")))
    with pytest.raises(ModelError, match=r"^net\.onnx: .*Det"):
        prepare(source, "net", Fetcher(source, tmp_path / "cache"))


NAMES = {
    "net.v1.onnx": "net.v1",
    "größe 3.onnx": "große_3",
    "a:b c.onnx": "a_b_c",
    "日本.onnx": "model",
    "..onnx": "model",
    "x" * 200 + ".onnx": "x" * 40,
}


@pytest.mark.parametrize("name", NAMES)
def test_libraries_are_named_after_files(name: str) -> None:
    assert library_name(Path(name)) == NAMES[name].replace("ß", "")


@pytest.mark.parametrize(
    "name", ["my net (1).onnx", "a:b#c.onnx", "größe/net.onnx", "null.onnx", "\"quoted'.onnx", "日.onnx"]
)
def test_what_is_kept_reads_back_as_the_same(name: str) -> None:
    """Whatever a path holds; the kept file finds the model from its own folder."""
    path = written(name, lookup_model())
    model = given(path, "ids=2,3")
    Path("kept").mkdir()
    Path("kept/net.yml").write_text(deployment_text(model, "onnx", Path("kept")))
    kept, at_once = deployment.load(Path("kept/net.yml")), deployments.load(model)
    assert kept.library_name == at_once.library_name and list(kept.models) == list(at_once.models)
    (mine,), (theirs,) = kept.models.values(), at_once.models.values()
    assert (Path("kept") / mine.model_file_path).samefile(path)
    assert mine.subgraph == theirs.subgraph


def test_a_name_that_no_file_can_hold_is_refused() -> None:
    path = Path(os.fsdecode(b"n\xff.onnx"))
    path.write_bytes(tiny_model(batch=1).SerializeToString())
    assert "a name with characters that cannot be printed; rename it" in refusal(path)


CAFFE = """name: "net"
layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 1 dim: 3 dim: 4 dim: 4 } } }
layer { name: "relu" type: "ReLU" bottom: "data" top: "relu" }
"""


def test_a_caffe_network_and_its_weights(tmp_path: Path) -> None:
    path = written("deploy.prototxt", CAFFE.encode())
    assert refusal(path) == "deploy.prototxt: its weights are not beside it as deploy.caffemodel; say --weights FILE"
    other = written("other.caffemodel", b"")
    assert refusal(path).endswith("as deploy.caffemodel (there is other.caffemodel); say --weights FILE")
    source = deployments.load(GivenModel(path, weights=other))
    settings = source.models["deploy"]
    assert (settings.platform, settings.weight_file_path) == ("caffe", "other.caffemodel")
    assert [(tensor.name, tensor.shape, tensor.data_format) for tensor in settings.subgraph.inputs] == [
        ("data", (1, 3, 4, 4), "NCHW")
    ]
    assert [tensor.name for tensor in settings.subgraph.outputs] == ["relu"]
    other.rename("deploy.caffemodel")
    assert deployments.of_path(path).models["deploy"].weight_file_path == "deploy.caffemodel"
    with pytest.raises(ConfigError, match="--weights gone: no such file"):
        deployments.load(GivenModel(path, weights=Path("gone")))
    with pytest.raises(ConfigError, match="--weights: the file of platform onnx holds its weights"):
        deployments.load(GivenModel(written("net.onnx"), weights=other))


def test_a_framework_that_is_missing_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("runtime.frameworks.process.is_installed", lambda package: False)
    path = written("net.tflite", bytes(4) + file_kinds.TFLITE + bytes(60))
    assert refusal(path).endswith("tensorflow, which is not installed: pip install 'farm[tensorflow]'")


def test_shapes_of_scripts() -> None:
    assert given_shapes({"x": (1, 2), "y": [[1], [2]], "s": ()}) == (
        ("x", (1, 2)), ("y", (1,)), ("y", (2,)), ("s", ()),
    )  # fmt: skip
    assert given_shapes(None) == ()
    with pytest.raises(ConfigError, match="shapes: 'x=0,2': write INPUT=SIZES with sizes of at least 1"):
        given_shapes({"x": (0, 2)})


@pytest.mark.parametrize("word", ["x=1,a", "x=0", "x=1,,2", "x=-1", "x=1.5"])
def test_words_that_are_no_shapes(word: str) -> None:
    with pytest.raises(ValueError, match="write INPUT=SIZES"):
        parsed_shape(word)


def test_words_that_are_shapes() -> None:
    assert parsed_shape("a=b=1, 2") == ("a=b", (1, 2))
    assert parsed_shape("1,2") == ("", (1, 2)) and parsed_shape("s=") == ("s", ())
