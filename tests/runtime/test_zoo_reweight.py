"""Networks with constant weights get weights that make their outputs depend on the input."""

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from runtime import zoo
from runtime.errors import ModelError


def run(model, images):
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    name = model.graph.input[0].name
    return np.stack([session.run(None, {name: image[None]})[0].ravel() for image in images])


def test_the_nine_networks_are_found():
    assert sorted(zoo.light_models()) == [
        "bvlc_alexnet", "densenet121", "inception_v1", "inception_v2", "resnet50", "shufflenet", "squeezenet",
        "vgg19", "zfnet512",
    ]  # fmt: skip


def constant(name, value):
    return helper.make_node("Constant", [], [name], value=numpy_helper.from_array(value))


def filled(name, shape, value=0.02):
    tensor = helper.make_tensor("", TensorProto.FLOAT, [1], [value])
    return [
        constant(f"{name}_shape", np.array(shape, np.int64)),
        helper.make_node("ConstantOfShape", [f"{name}_shape"], [name], value=tensor),
    ]


def network(*nodes, output=("N",), opset=13, initializers=()):
    graph = helper.make_graph(
        [node for group in nodes for node in (group if isinstance(group, list) else [group])],
        "network",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 16, 16])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, output)],
        initializer=[numpy_helper.from_array(value, name) for name, value in initializers],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def test_constant_nodes_become_initializers_and_views_of_parameters_stay():
    model = network(
        filled("w", (8, 3, 1, 1)),
        constant("flat_weight", np.full((1, 1, 10, 8), 0.02, np.float32)),
        constant("gemm_shape", np.array([10, 8], np.int64)),
        helper.make_node("Conv", ["x", "w"], ["c"]),
        helper.make_node("Relu", ["c"], ["r"]),
        helper.make_node("GlobalAveragePool", ["r"], ["p"]),
        constant("rows", np.array([1, 8], np.int64)),
        helper.make_node("Reshape", ["p", "rows"], ["f"]),
        helper.make_node("Reshape", ["flat_weight", "gemm_shape"], ["g"]),
        filled("b", (10,)),
        helper.make_node("Gemm", ["f", "g", "b"], ["l"], transB=1),
        helper.make_node("Softmax", ["l"], ["y"], axis=1),
        output=(1, 10),
    )
    result = zoo.reweight(model)
    onnx.checker.check_model(result, full_check=True)
    values = {tensor.name: numpy_helper.to_array(tensor) for tensor in result.graph.initializer}
    assert set(values) == {"w", "flat_weight", "gemm_shape", "rows", "b"}
    assert values["flat_weight"].shape == (1, 1, 10, 8)
    np.testing.assert_array_equal(values["rows"], [1, 8])
    assert [node.op_type for node in result.graph.node] == [
        "Conv", "Relu", "GlobalAveragePool", "Reshape", "Reshape", "Gemm", "Softmax",
    ]  # fmt: skip
    outputs = run(result, np.random.default_rng(2).uniform(-1, 1, (4, 3, 16, 16)).astype(np.float32))
    assert np.ptp(outputs, axis=0).max() > 0.1


@pytest.mark.parametrize("transposed", [0, 1])
def test_fully_connected_weights_are_scaled_by_output(transposed):
    features, classes = 3 * 16 * 16, 12
    shape = (classes, features) if transposed else (features, classes)
    model = network(
        helper.make_node("Flatten", ["x"], ["f"]),
        helper.make_node("Gemm", ["f", "w", "b"], ["y"], transB=transposed),
        output=(1, classes),
        initializers=[("w", np.ones(shape, np.float32)), ("b", np.zeros(classes, np.float32))],
    )
    outputs = run(zoo.reweight(model), np.random.default_rng(3).uniform(-1, 1, (200, 3, 16, 16)).astype(np.float32))
    deviations = outputs.std(axis=0)
    assert deviations.min() > 0.5 * deviations.max()


def test_parameters_of_other_operators_keep_their_values():
    model = network(
        helper.make_node("Conv", ["x", "w"], ["c"]),
        helper.make_node("Resize", ["c", "", "scales"], ["r"]),
        helper.make_node("Pow", ["r", "two"], ["q"]),
        helper.make_node("Clip", ["q", "low", "high"], ["y"]),
        output=(1, 4, 32, 32),
        initializers=[
            ("w", np.full((4, 3, 1, 1), 0.02, np.float32)),
            ("scales", np.array([1, 1, 2, 2], np.float32)),
            ("two", np.array([2], np.float32)),
            ("low", np.array(0, np.float32)),
            ("high", np.array(6, np.float32)),
        ],
    )
    values = {tensor.name: numpy_helper.to_array(tensor) for tensor in zoo.reweight(model).graph.initializer}
    np.testing.assert_array_equal(values["scales"], [1, 1, 2, 2])
    assert (values["two"], values["low"], values["high"]) == (2, 0, 6)
    assert np.unique(values["w"]).size > 6


def test_same_seed_same_bytes_other_seed_other_weights():
    model = network(filled("w", (8, 3, 3, 3)), helper.make_node("Conv", ["x", "w"], ["y"]), output=(1, 8, 14, 14))
    first, second, other = (zoo.reweight(model, seed).SerializeToString() for seed in (1, 1, 2))
    assert first == second
    assert first != other


def test_model_without_the_standard_operators_is_refused():
    model = network(helper.make_node("Relu", ["x"], ["y"]), output=(1, 3, 16, 16))
    model.opset_import[0].domain = "other"
    with pytest.raises(ModelError, match="network: the model imports no opset of the standard operators"):
        zoo.reweight(model)
