"""The model as a whole at import: inputs bound, outputs chosen, what is damaged or unsupported refused in one line."""

import os
import re
from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from runtime.errors import ModelError, UnsupportedError
from runtime.importers.onnx_file import load_onnx
from runtime.importers.onnx_importer import NEWEST_OPSET, import_onnx
from runtime.oracle.evaluate import evaluate
from tests.runtime.onnx_models import inputs_of, one_op, onnx_model, random_array, run_onnxruntime
from tests.time_limit import within

IMAGE = ("N", 2, 5, 5)


def small_model(shape: tuple[int | str, ...] = (1, 2, 5, 5)) -> onnx.ModelProto:
    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["features"], "conv"),
        helper.make_node("Relu", ["features"], ["active"], "relu"),
        helper.make_node("ReduceMean", ["active"], ["y"], "mean", axes=[2, 3]),
    ]
    constants = {"w": random_array((3, 2, 3, 3), 1), "b": random_array((3,), 2)}
    return onnx_model(nodes, {"x": shape}, ["y"], constants, 13)


def refused(model: onnx.ModelProto, *arguments: object, kind: type[ModelError] = ModelError) -> str:
    with pytest.raises(kind) as caught:
        import_onnx(model, *arguments)  # type: ignore[arg-type]
    text = str(caught.value)
    assert "\n" not in text
    return text


def test_symbolic_batch_is_bound() -> None:
    graph = import_onnx(small_model(IMAGE), {"x": (4, 2, 5, 5)})
    assert graph.shape("x") == (4, 2, 5, 5)
    assert graph.shape("y") == (4, 3, 1, 1)


def test_symbolic_shape_must_be_given() -> None:
    assert refused(small_model(IMAGE)) == "input 'x' has the symbolic shape (N, 2, 5, 5); give its shape"


def test_contradicting_shape() -> None:
    text = refused(small_model(IMAGE), {"x": (1, 3, 5, 5)})
    assert text == "input 'x': the given shape (1, 3, 5, 5) contradicts the model's (N, 2, 5, 5)"
    assert "contradicts" in refused(small_model(), {"x": (1, 2, 5)})


def test_one_symbol_has_one_value() -> None:
    model = onnx_model([helper.make_node("Add", ["a", "b"], ["y"])], {"a": ("N", 1), "b": ("N", 3)}, ["y"])
    assert import_onnx(model, {"a": (2, 1), "b": (2, 3)}).shape("y") == (2, 3)
    text = refused(model, {"a": (2, 1), "b": (1, 3)})
    assert text == "input 'b': shape (1, 3) makes N 1, but input 'a' makes it 2"


def test_unknown_input_and_output() -> None:
    assert refused(small_model(), {"z": (1,)}) == "input 'z' is not in the model; its inputs: x"
    assert refused(small_model(), None, ["z"]) == "output 'z' is computed by no node; the model's outputs: y"
    assert "shape (0, 2, 5, 5) has a size below 1" in refused(small_model(IMAGE), {"x": (0, 2, 5, 5)})


def test_input_of_another_type() -> None:
    model = small_model()
    model.graph.input[0].type.tensor_type.elem_type = TensorProto.STRING
    assert refused(model, kind=UnsupportedError).startswith("input 'x' holds STRING; supported: float32, float16, ")


def test_any_tensor_may_be_an_output() -> None:
    graph = import_onnx(small_model(), None, ["active", "features"])
    assert graph.outputs == ["active", "features"]
    assert [node.name for node in graph.nodes] == ["conv", "relu"]


def test_any_tensor_may_be_an_input() -> None:
    graph = import_onnx(small_model(), {"features": (1, 3, 7, 7)})
    assert graph.inputs == ["features"]
    assert [node.name for node in graph.nodes] == ["relu", "mean"]
    assert graph.constants == {}


def test_inputs_that_nothing_needs_are_left_out_unless_given() -> None:
    model = onnx_model([helper.make_node("Relu", ["x"], ["y"])], {"x": (2,), "spare": ("N",)}, ["y"])
    assert import_onnx(model).inputs == ["x"]
    assert import_onnx(model, {"spare": (3,)}).inputs == ["x", "spare"]


def test_initializers_among_the_inputs_are_constants() -> None:
    model = small_model()
    for tensor in model.graph.initializer:
        model.graph.input.append(helper.make_tensor_value_info(tensor.name, TensorProto.FLOAT, tensor.dims))
    assert import_onnx(model).inputs == ["x"]


def test_unsupported_operator_is_named() -> None:
    text = refused(one_op("Unique", {"x": (1, 2, 3)}), kind=UnsupportedError)
    assert text == "node 'node' (Unique): the tensor 'x' is computed at run time; supported: a constant"
    text = refused(one_op("TfIdfVectorizer", {"x": (1, 2, 3)}), kind=UnsupportedError)
    assert text.startswith(
        "node 'node' (TfIdfVectorizer): operator ai.onnx.TfIdfVectorizer is not supported; are: Abs, Acos, Acosh"
    )
    model = one_op("Attention", {"x": (1, 2, 3)})
    model.graph.node[0].domain = "com.example"
    assert "operator com.example.Attention is not supported" in refused(model, kind=UnsupportedError)


def test_everything_that_is_lacking_is_listed() -> None:
    """Behind a node that is refused too, as far as operators are known by their names."""
    nodes = [
        helper.make_node("TfIdfVectorizer", ["x"], ["a"], "first"),
        helper.make_node("TfIdfVectorizer", ["x"], ["b"], "second"),
        helper.make_node("Add", ["a", "b"], ["c"], "sum"),
        helper.make_node("Det", ["c"], ["d"], "det"),
        helper.make_node("Relu", ["d"], ["y"], "relu"),
    ]
    text = refused(onnx_model(nodes, {"x": (4,)}, ["y"]), kind=UnsupportedError)
    assert text.startswith(
        "the model needs what is not supported: 2 TfIdfVectorizer, first node 'first' (TfIdfVectorizer): operator "
    )
    assert text.endswith("; 1 Det, first node 'det' (Det): operator Det is not supported")


def test_opset_beyond_the_newest() -> None:
    text = refused(one_op("Relu", {"x": (1,)}, opset=NEWEST_OPSET + 1), kind=UnsupportedError)
    assert text == f"the model uses opset {NEWEST_OPSET + 1}; supported: 7 to {NEWEST_OPSET}"


def test_opset_before_the_oldest_is_brought_to_it() -> None:
    assert [node.op for node in import_onnx(one_op("Relu", {"x": (1,)}, opset=6)).nodes] == ["Relu"]


def test_output_that_is_not_supported() -> None:
    nodes = [
        helper.make_node("LRN", ["x"], ["normal", "scale"], size=3),
        helper.make_node("Relu", ["scale"], ["y"], "relu"),
    ]
    text = refused(onnx_model(nodes, {"x": (1, 1, 4, 4)}, ["y"]), kind=UnsupportedError)
    assert text == "node 'relu' (Relu): reads 'scale', an output of LRN that is not supported"


def test_nodes_out_of_order() -> None:
    model = small_model()
    nodes = list(model.graph.node)
    del model.graph.node[:]
    model.graph.node.extend(reversed(nodes))
    assert refused(model) == "node 'mean' (ReduceMean): nothing before it computes its input 'active'"


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("name", ["w", "b"])
def test_weights_that_are_no_numbers(bad: float, name: str) -> None:
    model = small_model()
    tensor = next(t for t in model.graph.initializer if t.name == name)
    value = numpy_helper.to_array(tensor).copy()
    value.flat[1] = bad
    tensor.CopyFrom(numpy_helper.from_array(value, name))
    text = refused(model)
    assert text == f"constant '{name}' holds 1 NaN or infinite value(s) of {value.size}; repair the model"


def test_infinite_bounds_are_not_weights() -> None:
    """A Pad with minus infinity and an open Clip are what models mean."""
    graph = import_onnx(one_op("Clip", {"x": (3,)}, {"min": -np.inf, "max": 1.0}, 13))
    assert graph.nodes[0].attrs["beta"] == 1.0
    pads = {"pads": [1, 1], "value": -np.inf}
    assert import_onnx(one_op("Pad", {"x": (3,)}, pads, 13)).nodes[0].attrs["value"] == -np.inf


def test_variance_below_zero() -> None:
    constants = {name: np.full(2, 1.0) for name in ("scale", "shift", "mean")} | {"variance": [1.0, -1.0]}
    text = refused(one_op("BatchNormalization", {"x": (1, 2, 3, 3)}, constants))
    assert text == "node 'node' (BatchNormalization): variance 'variance' plus epsilon is not positive"


def test_weight_matrix_of_another_rank() -> None:
    text = refused(one_op("Gemm", {"x": (2, 3)}, {"w": random_array((3,))}))
    assert text == "node 'node' (Gemm): weight matrix 'w' has shape (3,); 2 axes are needed"


def test_tensor_whose_data_is_short() -> None:
    model = small_model()
    model.graph.initializer[0].raw_data = model.graph.initializer[0].raw_data[:-4]
    assert refused(model).startswith("tensor 'w': its data does not fit its shape and type: ")


def saved(path: Path, model: onnx.ModelProto, location: str = "weights.bin") -> Path:
    """Saves a model with its tensors in a file beside it."""
    data = b""
    for tensor in model.graph.initializer:
        entries = {"location": location, "offset": str(len(data)), "length": str(len(tensor.raw_data))}
        data += tensor.raw_data
        tensor.ClearField("raw_data")
        tensor.data_location = TensorProto.EXTERNAL
        for key, value in entries.items():
            tensor.external_data.add(key=key, value=value)
    (path / "weights.bin").write_bytes(data)
    (path / "model.onnx").write_bytes(model.SerializeToString())
    return path / "model.onnx"


def test_external_data(tmp_path: Path) -> None:
    expected = import_onnx(small_model())
    graph = import_onnx(load_onnx(saved(tmp_path, small_model())))
    for name, value in expected.constants.items():
        np.testing.assert_array_equal(graph.constants[name], value)


@pytest.mark.parametrize("location", ["../weights.bin", "/etc/passwd", "", "link.bin"])
def test_external_data_elsewhere(tmp_path: Path, location: str) -> None:
    folder = tmp_path / "models"
    folder.mkdir()
    (tmp_path / "weights.bin").write_bytes(bytes(1000))
    (folder / "link.bin").symlink_to(tmp_path / "weights.bin")
    path = saved(folder, small_model(), location)
    with pytest.raises(ModelError) as caught:
        load_onnx(path)
    assert str(caught.value) == f"{path}: tensor 'w': its file '{location}' is not in the model's folder"


def test_external_data_missing_or_short(tmp_path: Path) -> None:
    path = saved(tmp_path, small_model())
    weights = tmp_path / "weights.bin"
    weights.write_bytes(weights.read_bytes()[:-3])
    with pytest.raises(ModelError, match=r"tensor 'b': its file 'weights.bin' ends 3 bytes early"):
        load_onnx(path)
    weights.unlink()
    with pytest.raises(ModelError, match=r"tensor 'w': its file 'weights.bin' cannot be read: No such file"):
        load_onnx(path)


@pytest.mark.parametrize(
    ("key", "size", "reason"),
    [
        ("length", 2**62, "its file 'weights.bin' ends 4611686018427387"),
        ("length", 2**70, "its file 'weights.bin' ends 11805916207174113"),
        ("length", -5, "offset and length of its data are not numbers of bytes"),
        ("offset", 2**62, "its file 'weights.bin' ends 4611686018427387"),
        ("offset", 2**70, "its file 'weights.bin' ends 11805916207174113"),
        ("offset", -1, "offset and length of its data are not numbers of bytes"),
    ],
)
def test_external_data_of_impossible_places(tmp_path: Path, key: str, size: int, reason: str) -> None:
    path = saved(tmp_path, small_model())
    model = onnx.load(path, load_external_data=False)
    next(entry for entry in model.graph.initializer[0].external_data if entry.key == key).value = str(size)
    path.write_bytes(model.SerializeToString())
    with pytest.raises(ModelError, match=f"tensor 'w': {reason}"):
        load_onnx(path)


@pytest.mark.parametrize("name", ["weights.bin", "model.onnx"])
def test_a_fifo_is_refused_at_once(tmp_path: Path, name: str) -> None:
    path = saved(tmp_path, small_model())
    (tmp_path / name).unlink()
    os.mkfifo(tmp_path / name)
    with within(10), pytest.raises(ModelError, match=r"cannot be read: it is no regular file, but a FIFO"):
        load_onnx(path)


def test_a_device_is_refused_at_once() -> None:
    with within(10), pytest.raises(ModelError, match=r"^/dev/zero: cannot be read: it is no regular file"):
        load_onnx(Path("/dev/zero"))


def test_external_data_that_was_not_loaded(tmp_path: Path) -> None:
    model = onnx.load(saved(tmp_path, small_model()), load_external_data=False)
    assert refused(model) == "tensor 'w': its data lies in another file, which was not loaded"


@pytest.mark.parametrize("content", [b"", b"not a model at all", b"\x00" * 64, bytes(range(256))])
def test_file_that_is_no_model(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(content)
    with pytest.raises(ModelError, match=rf"^{re.escape(str(path))}: not an ONNX model, or truncated"):
        load_onnx(path)


def test_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"absent.onnx: cannot be read: No such file"):
        load_onnx(tmp_path / "absent.onnx")


def test_truncated_file(tmp_path: Path) -> None:
    """Cut anywhere, the file gives one line, or still the whole graph (where only the end of the header went)."""
    path, data = tmp_path / "model.onnx", small_model().SerializeToString()
    for length in range(0, len(data), 7):
        path.write_bytes(data[:length])
        with pytest.raises(ModelError):
            import_onnx(load_onnx(path))


@pytest.mark.slow
@settings(max_examples=60)
@given(data=st.data())
def test_mutated_file(data: st.DataObject, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Whatever a few wrong bytes make of a model, the importer takes it or raises ModelError."""
    content = bytearray(small_model().SerializeToString())
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    path = tmp_path_factory.mktemp("mutated") / "model.onnx"
    path.write_bytes(content)
    try:
        import_onnx(load_onnx(path))
    except ModelError as error:
        assert "\n" not in str(error)


def test_model_matches_onnxruntime() -> None:
    model = small_model()
    graph = import_onnx(model)
    inputs = inputs_of(graph)
    np.testing.assert_allclose(evaluate(graph, inputs)["y"], run_onnxruntime(model, inputs)[0], rtol=1e-5, atol=1e-6)
