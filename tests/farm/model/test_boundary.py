"""Models cut at the tensors that a deployment file names, and converted to its data formats."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from farm.config.deployment import Input, Output
from farm.config.platforms import DataFormat
from farm.model.boundary import channel_axis, cut_at_boundary
from farm.model.oracle import expected_outputs
from runtime.convert import convert
from runtime.errors import ModelError, NoReferenceError
from runtime.oracle.evaluate import evaluate
from tests.farm.model.tiny_model import FLOAT, model_of, tiny_model

X = np.random.default_rng(0).uniform(-1, 1, (1, 3, 8, 8)).astype(np.float32)
NCHW_X = Input("x", (1, 3, 8, 8), "float32", "NCHW", (-1.0, 1.0))
NHWC_X = Input("x", (1, 8, 8, 3), "float32", "NHWC", (-1.0, 1.0))
Y = Output("y", (1, 5), "NONE")


def both(model: onnx.ModelProto, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Outputs of ONNX Runtime, checked against those of the converted graph."""
    expected = expected_outputs(model, inputs)
    graph, _ = convert(model)
    computed = evaluate(graph, inputs)
    for name, value in expected.items():
        np.testing.assert_allclose(computed[name], value, rtol=1e-4, atol=1e-5)
    return expected


def test_a_model_cut_at_its_own_tensors_stays_whole() -> None:
    outputs = both(cut_at_boundary(tiny_model(), [NCHW_X], [Y]), {"x": X})
    assert outputs["y"].shape == (1, 5)


def test_nhwc_tensors_keep_their_names_and_values() -> None:
    plain = both(cut_at_boundary(tiny_model(), [NCHW_X], [Y, Output("act", None, "NCHW")]), {"x": X})
    model = cut_at_boundary(tiny_model(), [NHWC_X], [Y, Output("act", (1, 8, 8, 4), "NHWC")])
    turned = both(model, {"x": X.transpose(0, 2, 3, 1)})
    np.testing.assert_allclose(turned["y"], plain["y"], rtol=1e-5)
    np.testing.assert_allclose(turned["act"], plain["act"].transpose(0, 2, 3, 1), rtol=1e-5)


def test_an_nhwc_output_of_two_axes_is_not_transposed() -> None:
    model = cut_at_boundary(tiny_model(), [NCHW_X], [Output("y", (1, 5), "NHWC")])
    assert [node.op_type for node in model.graph.node].count("Transpose") == 0


def test_an_intermediate_tensor_as_input_leaves_out_what_computes_it() -> None:
    middle = Input("mean", (1, 4, 1, 1), "float32", "NCHW", (-1.0, 1.0))
    model = cut_at_boundary(tiny_model(), [middle], [Y])
    assert [node.op_type for node in model.graph.node] == ["Flatten", "Gemm"]
    assert {tensor.name for tensor in model.graph.initializer} == {"dense", "shift"}
    both(model, {"mean": np.ones((1, 4, 1, 1), np.float32)})


def test_only_what_an_output_needs_is_kept() -> None:
    model = cut_at_boundary(tiny_model(), [NCHW_X], [Output("conv", None, "NCHW")])
    assert [node.op_type for node in model.graph.node] == ["Conv"]


def test_models_of_the_first_versions_list_weights_as_inputs() -> None:
    model = tiny_model()
    model.ir_version = 3
    for tensor in model.graph.initializer:
        model.graph.input.append(helper.make_tensor_value_info(tensor.name, FLOAT, tensor.dims))
    both(cut_at_boundary(model, [NCHW_X], [Y]), {"x": X})


def refused(model: onnx.ModelProto, tensor: Input, output: Output = Y) -> str:
    with pytest.raises(ModelError) as caught:
        cut_at_boundary(model, [tensor], [output])
    return str(caught.value)


def test_a_wrong_shape_is_refused_with_both_shapes() -> None:
    text = refused(tiny_model(), Input("x", (1, 3, 9, 8), "float32", "NCHW", (0, 1)))
    assert text == "input 'x': shape 1,3,9,8, but the model reads ?,3,8,8"


def test_the_error_of_a_wrong_shape_shows_it_in_the_models_order() -> None:
    text = refused(tiny_model(), Input("x", (1, 3, 8, 8), "float32", "NHWC", (0, 1)))
    assert text == "input 'x': shape 1,3,8,8, which is 1,8,3,8 in the model's order, but the model reads ?,3,8,8"


def test_unknown_tensors_are_refused_with_those_that_there_are() -> None:
    text = refused(tiny_model(), Input("image", (1, 3, 8, 8), "float32", "NCHW", (0, 1)))
    assert text == "input tensor 'image' is not in the model; it has 'x'"
    text = refused(tiny_model(), NCHW_X, Output("z", None, "NCHW"))
    assert text == "output tensor 'z' is not in the model; it has 'y'"


def test_an_input_that_is_needed_and_not_given_is_named() -> None:
    values = [helper.make_tensor_value_info(name, FLOAT, [2]) for name in ("x", "other", "y")]
    model = model_of([helper.make_node("Add", ["x", "other"], ["y"])], values[:2], values[2:])
    text = refused(model, Input("x", (2,), "float32", "NONE", (0, 1)))
    assert text == "the model reads the input 'other', which input_tensors does not name"


def test_another_element_type_is_refused() -> None:
    values = [helper.make_tensor_value_info(name, TensorProto.INT64, [2]) for name in ("x", "y")]
    model = model_of([helper.make_node("Neg", ["x"], ["y"])], values[:1], values[1:])
    text = refused(model, Input("x", (2,), "float32", "NONE", (0, 1)))
    assert text == "input 'x': the model reads INT64, input_data_types says float32"


def lookup_model() -> onnx.ModelProto:
    """Rows of a table by int64 indices, and the place of each row's greatest element."""
    table = numpy_helper.from_array(np.random.default_rng(1).uniform(-1, 1, (5, 4)).astype(np.float16), "table")
    inputs = [helper.make_tensor_value_info("rows", TensorProto.INT64, [3])]
    kinds = {"picked": TensorProto.FLOAT16, "best": TensorProto.INT64}
    outputs = [helper.make_tensor_value_info(name, kind, None) for name, kind in kinds.items()]
    nodes = [
        helper.make_node("Gather", ["table", "rows"], ["picked"]),
        helper.make_node("ArgMax", ["picked"], ["best"], axis=1, keepdims=0),
    ]
    model = model_of(nodes, inputs, outputs)
    model.graph.initializer.append(table)
    return model


def test_tensors_of_other_element_types_keep_them() -> None:
    rows = Input("rows", (3,), "int64", "NONE", (0, 4))
    outputs = [Output("picked", None, "NONE", "float16"), Output("best", None, "NONE")]
    found = both(cut_at_boundary(lookup_model(), [rows], outputs), {"rows": np.asarray([4, -5, 2])})
    assert (found["picked"].dtype, found["best"].dtype) == (np.float16, np.int64)


def test_another_element_type_of_an_output_is_refused() -> None:
    rows, best = Input("rows", (3,), "int64", "NONE", (0, 4)), Output("best", None, "NONE", "int32")
    text = refused(lookup_model(), rows, best)
    assert text == "output 'best': the model writes INT64, output_data_types says int32"


def test_onnx_runtime_refuses_with_one_line() -> None:
    model = model_of(
        [helper.make_node("NoSuchOperator", ["x"], ["y"])],
        [helper.make_tensor_value_info("x", FLOAT, [2])],
        [helper.make_tensor_value_info("y", FLOAT, [2])],
    )
    with pytest.raises(NoReferenceError, match="ONNX Runtime, the reference, refuses the model: ") as caught:
        expected_outputs(model, {"x": np.zeros(2, np.float32)})
    assert "\n" not in str(caught.value)


def test_the_channel_axis_is_last_in_nhwc_only() -> None:
    assert [channel_axis(form, 4) for form in ("NCHW", "NHWC", "NONE")] == [1, 3, 1]


@pytest.mark.parametrize("data_format", ["NHWC", "NCHW", "NONE"])
def test_a_model_in_nhwc_order_keeps_it_unless_the_file_says_nchw(data_format: DataFormat) -> None:
    """Such is what was converted from TensorFlow: its own order is NHWC."""
    nodes = [helper.make_node("Softmax", ["x"], ["y"], "softmax", axis=3)]
    value = helper.make_tensor_value_info
    model = model_of(nodes, [value("x", FLOAT, [1, 8, 8, 3])], [value("y", FLOAT, [1, 8, 8, 3])])
    x = X.transpose(0, 2, 3, 1)
    expected = expected_outputs(model, {"x": x})["y"]
    turned = data_format == "NCHW"
    shape = (1, 3, 8, 8) if turned else (1, 8, 8, 3)
    inputs, outputs = [Input("x", shape, "float32", data_format, (-1.0, 1.0))], [Output("y", shape, data_format)]
    found = expected_outputs(cut_at_boundary(model, inputs, outputs, "NHWC"), {"x": X if turned else x})["y"]
    np.testing.assert_allclose(found, expected.transpose(0, 3, 1, 2) if turned else expected, rtol=1e-6)


def test_a_shape_in_the_other_order_is_refused_in_the_models_own() -> None:
    model = model_of(
        [helper.make_node("Relu", ["x"], ["y"], "relu")],
        [helper.make_tensor_value_info("x", FLOAT, [1, 8, 8, 3])],
        [helper.make_tensor_value_info("y", FLOAT, [1, 8, 8, 3])],
    )
    given = Input("x", (1, 8, 8, 3), "float32", "NCHW", (-1.0, 1.0))
    with pytest.raises(ModelError, match=r"shape 1,8,8,3, which is 1,8,3,8 in the model's order, but the model reads"):
        cut_at_boundary(model, [given], [Output("y", None, "NCHW")], "NHWC")
