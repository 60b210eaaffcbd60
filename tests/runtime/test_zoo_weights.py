"""Calibrated weights depend on the seed alone, keep activations moderate, and make outputs tell inputs apart."""

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from runtime import zoo
from runtime.errors import ModelError, UnsupportedError
from runtime.zoo.calibration import calibrated_parameters
from runtime.zoo.skeleton import Skeleton, Topology
from runtime.zoo.statistics_pass import Layer, StatisticsPass
from tests.opencl import EXHAUSTIVE

SMALL = {
    **dict.fromkeys(("mobilenet_v1", "mobilenet_v2", "squeezenet_v11", "resnet50"), 64),
    **{"inception_v3": 75, "mobilenet_v3_large": 64, "efficientnet_lite0": 64},
}


def small(name, **options):
    return zoo.build(name, **({"width": 0.25, "size": SMALL[name]} | options))


def run(model, images, outputs=None):
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(outputs, {model.graph.input[0].name: images})


def noise(size, count, seed=7):
    return np.random.default_rng(seed).uniform(-1, 1, (count, 3, size, size)).astype(np.float32)


def logits(probabilities):
    values = np.log(np.maximum(probabilities.astype(np.float64), 1e-30))
    return values - values.mean(axis=1, keepdims=True)


@pytest.mark.slow
@pytest.mark.parametrize("name", SMALL)
def test_same_seed_same_bytes_other_seed_other_weights(name):
    first, second, other = (small(name, seed=seed, classes=10).SerializeToString() for seed in (3, 3, 4))
    assert first == second
    assert first != other


@pytest.mark.slow
@pytest.mark.parametrize("name", SMALL)
def test_softmax_is_neither_flat_nor_saturated_and_tells_inputs_apart(name):
    (probabilities,) = run(small(name), noise(SMALL[name], 16))
    top = probabilities.max(axis=1)
    assert 0.05 < np.median(top) < 0.9
    assert top.min() > 20 / 1000
    assert len(set(probabilities.argmax(axis=1).tolist())) >= 8
    correlation = np.corrcoef(logits(probabilities))[np.triu_indices(16, 1)]
    assert correlation.max() < 0.9
    assert correlation.mean() < 0.5


@pytest.mark.slow
@pytest.mark.parametrize("name", SMALL)
def test_activations_stay_sane_at_every_depth(name):
    model = small(name)
    tensors = [output for node in model.graph.node for output in node.output]
    del model.graph.output[:]
    model.graph.output.extend(helper.make_empty_tensor_value_info(tensor) for tensor in tensors)
    for tensor, value in zip(tensors, run(model, noise(SMALL[name], 4)), strict=True):
        assert np.isfinite(value).all(), tensor
        if tensor != "prob":
            assert 0.02 < value.std() < 30, tensor
            assert np.abs(value).max() < 300, tensor


@pytest.mark.slow
@pytest.mark.parametrize("name", SMALL)
def test_rectifiers_cut_off_a_part_of_the_values(name):
    model = small(name)
    outputs = [node.output[0] for node in model.graph.node if node.op_type in ("Relu", "Clip")]
    model.graph.output.extend(helper.make_empty_tensor_value_info(output) for output in outputs)
    values = run(model, noise(SMALL[name], 2), outputs)
    assert 0.05 < np.mean([np.mean(value == 0) for value in values]) < 0.5
    if name.startswith(("mobilenet_v1", "mobilenet_v2", "efficientnet")):
        assert np.mean([np.mean(value == 6) for value in values]) > 0.005


@pytest.mark.slow
@pytest.mark.parametrize("name", SMALL)
def test_rounding_errors_are_not_amplified_beyond_use(name):
    """Weights in half precision move the logits by a few percent, not by their own size."""
    model = small(name)
    images = noise(SMALL[name], 4)
    exact = logits(run(model, images)[0])
    for tensor in model.graph.initializer:
        half = numpy_helper.to_array(tensor).astype(np.float16).astype(np.float32)
        tensor.CopyFrom(numpy_helper.from_array(half, tensor.name))
    assert np.linalg.norm(logits(run(model, images)[0]) - exact) < 0.05 * np.linalg.norm(exact)


@pytest.mark.slow
def test_batch_normalizations_differ_from_identity_and_have_positive_variance():
    model = small("resnet50")
    values = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    for node in model.graph.node:
        if node.op_type == "BatchNormalization":
            scale, bias, mean, var = (values[name] for name in node.input[1:])
            assert (var > 1e-3).all()
            assert all(np.ptp(part) > 0 for part in (scale, bias, mean, var))


def convolution(*, channels=64, kernel=3, bias=True, size=8, opset=13, activation="Relu"):
    inputs = ["x", "w", *(["b"] if bias else [])]
    nodes = [
        helper.make_node("Conv", inputs, ["c"], pads=[kernel // 2] * 4),
        helper.make_node(activation, ["c"], ["r"]),
        helper.make_node("Conv", ["r", "v"], ["y"]),
        helper.make_node("BatchNormalization", ["y", *"stmu"], ["z"]),
    ]
    parameters = {"w": (channels, 3, kernel, kernel), "v": (5, channels, 1, 1), **dict.fromkeys("stmu", (5,))}
    parameters |= {"b": (channels,)} if bias else {}
    return Skeleton("test", opset, nodes, parameters, {}, {"x": (1, 3, size, size)}, {"z": (1, 5, size, size)})


def values_on_grid(skeleton, rng):
    return {k: (rng.integers(-256, 257, s) / 256).astype(np.float32) for k, s in skeleton.parameters.items()}


@pytest.mark.slow
def test_statistics_are_exact():
    """Sums in float32 give what exact arithmetic gives, whatever the order of the batch, hence on every CPU."""
    rng = np.random.default_rng(0)
    skeleton = convolution(kernel=1)
    values = values_on_grid(skeleton, rng)
    topology = Topology(skeleton)
    ones, zeros = np.ones(64, np.float32), np.zeros(64, np.float32)
    layers = [Layer(skeleton.nodes[0], ones, zeros, centred=True)]
    images = (rng.integers(-64, 65, (16, 3, 8, 8)) / 64).astype(np.float32)
    exact = np.einsum("oc,nchw->onhw", values["w"][:, :, 0, 0].astype(np.float64), images).reshape(64, -1)
    exact = np.round(exact * 64) / 64
    forward = StatisticsPass(skeleton, topology, values, layers).run({"x": images})
    backward = StatisticsPass(skeleton, topology, values, layers).run({"x": images[::-1]})
    np.testing.assert_array_equal(forward.mean["c"], exact.sum(axis=1) / exact.shape[1])
    variance = exact.var(axis=1)
    np.testing.assert_allclose(forward.variance["c"], np.maximum(variance, variance.max() / 10), rtol=1e-12)
    for name in ("mean", "variance"):
        np.testing.assert_array_equal(getattr(forward, name)["c"], getattr(backward, name)["c"])


@pytest.mark.slow
@pytest.mark.parametrize("opset", [9, 13, 18, 21])
@pytest.mark.parametrize("bias", [True, False])
def test_folded_parameters_give_the_standardised_tensors(opset, bias):
    skeleton = convolution(opset=opset, bias=bias)
    parameters = calibrated_parameters(skeleton, seed=5)
    model = skeleton.model(parameters)
    onnx.checker.check_model(model)
    del model.graph.input[0].type.tensor_type.shape.dim[0]
    model.graph.input[0].CopyFrom(helper.make_tensor_value_info("x", 1, ["N", 3, 8, 8]))
    model.graph.output[0].CopyFrom(helper.make_empty_tensor_value_info("z"))
    model.graph.output.append(helper.make_empty_tensor_value_info("c"))
    result, hidden = run(model, noise(8, 256))
    if bias:
        assert hidden.mean(axis=(0, 2, 3)).min() > 0.4
        assert hidden.mean(axis=(0, 2, 3)).max() < 1.6
        assert hidden.std(axis=(0, 2, 3)).min() > 0.6
    else:
        root_mean_square = np.sqrt((hidden**2).mean(axis=(0, 2, 3)))
        assert 0.6 < root_mean_square.min() < root_mean_square.max() < 1.4
    assert np.abs(result.mean(axis=(0, 2, 3))).max() < 0.3 * result.std()


@pytest.mark.slow
def test_a_parameter_that_two_layers_share_is_refused():
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"]),
        helper.make_node("Conv", ["a", "w"], ["b"]),
    ]
    skeleton = Skeleton("test", 13, nodes, {"w": (3, 3, 1, 1)}, {}, {"x": (1, 3, 8, 8)}, {"b": (1, 3, 8, 8)})
    with pytest.raises(UnsupportedError, match="parameter 'w' is shared by a and b"):
        calibrated_parameters(skeleton, seed=0)


@pytest.mark.slow
@pytest.mark.parametrize("shape", [(1, 10), (1, 3, "H", 8), (1, 3, 0, 8)])
def test_input_that_is_no_image_of_fixed_size_is_refused(shape):
    nodes = [helper.make_node("Relu", ["x"], ["y"])]
    skeleton = Skeleton("test", 13, nodes, {}, {}, {"x": shape}, {"y": shape})
    with pytest.raises(ModelError, match=r"input 'x' of shape .* only images with a fixed size"):
        calibrated_parameters(skeleton, seed=0)


@pytest.mark.slow
@pytest.mark.parametrize("name", SMALL if EXHAUSTIVE else ["mobilenet_v1", "squeezenet_v11", "inception_v3"])
def test_full_size_outputs_differ_between_inputs(name):
    size = zoo.describe(name).input_shape[2]
    model = zoo.build(name)
    onnx.checker.check_model(model)
    (probabilities,) = run(model, noise(size, 4))
    top = probabilities.max(axis=1)
    assert (top > 0.02).all()
    assert np.median(top) < 0.9
    assert len(set(probabilities.argmax(axis=1).tolist())) >= 3


def run_net(model, images):
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
    outputs = run_net(result, np.random.default_rng(2).uniform(-1, 1, (4, 3, 16, 16)).astype(np.float32))
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
    outputs = run_net(zoo.reweight(model), np.random.default_rng(3).uniform(-1, 1, (200, 3, 16, 16)).astype(np.float32))
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


def test_same_seed_same_new_weights():
    model = network(filled("w", (8, 3, 3, 3)), helper.make_node("Conv", ["x", "w"], ["y"]), output=(1, 8, 14, 14))
    first, second, other = (zoo.reweight(model, seed).SerializeToString() for seed in (1, 1, 2))
    assert first == second
    assert first != other


def test_model_without_the_standard_operators_is_refused():
    model = network(helper.make_node("Relu", ["x"], ["y"]), output=(1, 3, 16, 16))
    model.opset_import[0].domain = "other"
    with pytest.raises(ModelError, match="network: the model imports no opset of the standard operators"):
        zoo.reweight(model)
