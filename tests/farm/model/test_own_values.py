"""What a deployment file leaves out is as the model has it; where the model leaves it open, the file is asked."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from farm.config import deployment
from farm.jobs.models.prepare import Prepared, TestData, prepare
from farm.model.fetch import Fetcher
from farm.model.own_values import deployed_inputs
from runtime.errors import ConfigError, ModelError
from runtime.oracle.evaluate import evaluate
from tests.farm.model.tiny_model import model_of, tiny_model, write_deployment

BARE = """library_name: lib
target_abis: [host]
models:
  net: {platform: onnx, model_file_path: tiny.onnx, runtime: cpu%s}
"""


def two_inputs(batch: str | int = 2, kind: int = TensorProto.INT64) -> onnx.ModelProto:
    """Looks rows up in a table, and adds a second input: ids [batch,3], shift [3,4] -> y [batch,3,4]."""
    nodes = [
        helper.make_node("Gather", ["table", "ids"], ["rows"], "rows"),
        helper.make_node("Add", ["rows", "shift"], ["y"], "sum"),
    ]
    inputs = [
        helper.make_tensor_value_info("ids", kind, [batch, 3]),
        helper.make_tensor_value_info("shift", TensorProto.FLOAT, [3, 4]),
    ]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, [batch, 3, 4])]
    return model_of(nodes, inputs, outputs, {"table": np.arange(20.0).reshape(5, 4)})


def prepared(folder: Path, model: onnx.ModelProto, keys: str = "") -> Prepared:
    """The model under a deployment file that says no more than it must, and these keys of its subgraph."""
    subgraph = f", subgraphs: [{{{keys}}}]" if keys else ""
    path = write_deployment(folder, model)
    path.write_text(BARE % subgraph)
    source = deployment.load(path)
    return prepare(source, "net", Fetcher(source, folder / "cache"))


def refusal(folder: Path, model: onnx.ModelProto, keys: str = "") -> str:
    with pytest.raises((ConfigError, ModelError)) as caught:
        prepared(folder, model, keys)
    assert "\n" not in str(caught.value)
    return str(caught.value).removeprefix(f"{folder}/tiny.yml:4: models.net: ")


def test_names_shapes_and_types_are_the_models(tmp_path: Path) -> None:
    found = prepared(tmp_path, two_inputs())
    assert [(tensor.name, tensor.shape, tensor.data_type) for tensor in found.inputs] == [
        ("ids", (2, 3), "int64"),
        ("shift", (3, 4), "float32"),
    ]
    assert [tensor.name for tensor in found.outputs] == ["y"]
    data = TestData(found, {})
    np.testing.assert_allclose(evaluate(found.graph, data.inputs)["y"], data.expected["y"])


@pytest.mark.parametrize("kind", ["int32", "int64"])
def test_an_absent_type_is_the_models(tmp_path: Path, kind: str) -> None:
    model = two_inputs("N", getattr(TensorProto, kind.upper()))
    found = prepared(tmp_path, model, 'input_tensors: [ids, shift], input_shapes: ["2,3", "3,4"], output_tensors: y')
    assert [tensor.data_type for tensor in found.inputs] == [kind, "float32"]


def test_a_type_that_is_given_is_checked(tmp_path: Path) -> None:
    said = refusal(tmp_path, two_inputs(), "input_data_types: [float32]")
    assert said == "input 'ids': the model reads INT64, input_data_types says float32"


def test_an_inner_tensor_needs_a_shape(tmp_path: Path) -> None:
    keys = "input_tensors: [rows, shift]"
    assert refusal(tmp_path, two_inputs(), keys).startswith("input 'rows' is of any shape: say its shape with input_sh")
    found = prepared(tmp_path, two_inputs(), f'{keys}, input_shapes: ["2,3,4", "3,4"]')
    assert [tensor.name for tensor in found.inputs] == ["rows", "shift"]


def test_open_sizes_are_asked_for_in_one_line(tmp_path: Path) -> None:
    said = refusal(tmp_path, two_inputs("words"))
    assert said == 'input \'ids\' is (words, 3): say its shape with input_shapes: ["1,3", "3,4"]'
    said = refusal(tmp_path, tiny_model(batch="frames"), "input_tensors: [x]")
    assert said == "input 'x' is (frames, 3, 8, 8): say its shape with input_shapes: [\"1,3,8,8\"]"


def test_an_open_number_of_samples_is_one(tmp_path: Path) -> None:
    assert [tensor.shape for tensor in prepared(tmp_path, two_inputs("batch"), "").inputs] == [(1, 3), (3, 4)]


def test_a_shape_that_is_left_out_has_the_order_of_the_file(tmp_path: Path) -> None:
    found = prepared(tmp_path, tiny_model(batch=1), "input_data_formats: NHWC")
    assert [(tensor.shape, tensor.data_format) for tensor in found.inputs] == [((1, 8, 8, 3), "NHWC")]
    assert [tensor.shape for tensor in prepared(tmp_path, tiny_model(batch=1)).inputs] == [(1, 3, 8, 8)]


def test_a_wrong_name_is_told_before_the_order_of_its_shape(tmp_path: Path) -> None:
    keys = 'input_tensors: [image], input_shapes: ["1,8,8,8"], output_tensors: [y]'
    assert refusal(tmp_path, tiny_model(), keys) == "input tensor 'image' is not in the model; it has 'x'"


def test_keys_are_counted_against_the_model(tmp_path: Path) -> None:
    said = refusal(tmp_path, two_inputs(), 'input_shapes: ["2,3"]')
    assert said == "input_shapes: 1 given for 2 input_tensors; write a shape as 1,3,224,224"


def test_types_that_no_deployment_has(tmp_path: Path) -> None:
    text = two_inputs()
    text.graph.input[0].type.tensor_type.elem_type = TensorProto.STRING
    assert refusal(tmp_path, text).startswith("input 'ids' holds STRING; farm runs float32, float16,")


def test_a_model_without_outputs(tmp_path: Path) -> None:
    model = two_inputs()
    del model.graph.output[:]
    assert refusal(tmp_path, model) == "the model has no outputs; farm runs models with at least one"


def test_inputs_alone_are_the_same(tmp_path: Path) -> None:
    found = prepared(tmp_path, two_inputs())
    assert deployed_inputs(found.deployment, "net", Fetcher(found.deployment)) == found.inputs
