"""Equalised weights: the same function, channels of one range; and what is no pair."""

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

from farm.quantization.equalization import equalized, pairs_of
from runtime.host.onnx_runtime import onnxruntime
from tests.farm.model.tiny_model import FLOAT, model_of

IMAGE = (3, 8, 8)


def uneven_model(batch: int = 2) -> onnx.ModelProto:
    """Convolutions of all groupings, then products; each channel's weights differ by orders of magnitude."""
    random = np.random.default_rng(5)
    shapes = {"w1": (8, 3, 3, 3), "w2": (16, 1, 3, 3), "w3": (16, 3, 2, 2), "w4": (4, 6, 1, 1)}
    shapes |= {"w5": (6, 4), "w6": (6, 5), "w7": (5, 4), "b1": (8,), "b3": (6,), "b5": (6,)}
    channels = {"w1": 0, "w2": 0, "w3": 1, "w5": 0, "w6": 1}
    constants = {}
    for name, shape in shapes.items():
        constants[name] = random.normal(0, 0.5, shape)
        if name in channels:
            sizes = [count if axis == channels[name] else 1 for axis, count in enumerate(shape)]
            constants[name] *= np.exp(random.normal(0, 2, sizes))
    constants["w1"][3] = 0.0  # a channel of nothing stays as it is

    def node(op: str, inputs: str, output: str, **more: Any) -> onnx.NodeProto:
        return helper.make_node(op, inputs.split(), [output], output, **more)

    nodes = [
        node("Conv", "x w1 b1", "a"),
        node("Relu", "a", "ar"),
        node("Conv", "ar w2", "b", group=8),
        node("LeakyRelu", "b", "br", alpha=0.1),
        node("ConvTranspose", "br w3 b3", "c", group=2),
        node("Conv", "c w4", "d"),
        node("GlobalAveragePool", "d", "e"),
        node("Flatten", "e", "f"),
        node("Gemm", "f w5 b5", "g", transB=1),
        node("Relu", "g", "gr"),
        node("MatMul", "gr w6", "h"),
        node("Gemm", "h w7", "y", alpha=0.5),
    ]
    inputs, outputs = (
        [helper.make_tensor_value_info(name, FLOAT, shape)]
        for name, shape in (("x", (batch, *IMAGE)), ("y", (batch, 4)))
    )
    return model_of(nodes, inputs, outputs, constants)


def run(model: onnx.ModelProto) -> np.ndarray:
    x = np.random.default_rng(1).normal(0, 1, (2, *IMAGE)).astype(np.float32)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return np.asarray(session.run(["y"], {"x": x})[0])


def peaks(model: onnx.ModelProto, name: str, *axes: int) -> np.ndarray:
    (weight,) = (onnx.numpy_helper.to_array(each) for each in model.graph.initializer if each.name == name)
    return np.asarray(np.abs(weight).max(axes))


def test_an_equalised_model_computes_the_same() -> None:
    model = uneven_model()
    expected = run(model)
    assert [(pair.first.name, pair.second.name) for pair in pairs_of(model)] == [
        *(("a", "b"), ("b", "c"), ("c", "d"), ("g", "h"), ("h", "y"))
    ]
    np.testing.assert_allclose(run(equalized(model)), expected, rtol=1e-4, atol=1e-5 * np.abs(expected).max())


def test_channels_between_two_layers_have_one_range() -> None:
    made = equalized(uneven_model())
    first, depthwise = peaks(made, "w1", 1, 2, 3), peaks(made, "w2", 1, 2, 3).reshape(8, 2).max(1)
    is_known = np.arange(8) != 3
    np.testing.assert_allclose(first[is_known], depthwise[is_known], rtol=0.01)
    np.testing.assert_allclose(peaks(made, "w2", 1, 2, 3), peaks(made, "w3", 1, 2, 3), rtol=0.01)
    transposed = peaks(made, "w3", 2, 3).reshape(2, 8, 3).max(1).ravel()
    np.testing.assert_allclose(transposed, peaks(made, "w4", 0, 2, 3), rtol=0.01)
    np.testing.assert_allclose(peaks(made, "w5", 1), peaks(made, "w6", 1), rtol=0.01)
    np.testing.assert_allclose(peaks(made, "w6", 0), peaks(made, "w7", 1), rtol=0.01)
    before = peaks(uneven_model(), "w1", 1, 2, 3)[is_known]
    assert np.ptp(np.log(before)) > 3 > np.ptp(np.log(first[is_known]))


def test_a_channel_of_no_weights_is_left_alone() -> None:
    model = uneven_model()
    made = equalized(model)
    bias, own = (onnx.numpy_helper.to_array(each.graph.initializer[7]) for each in (made, model))
    assert made.graph.initializer[7].name == "b1" and bias[3] == own[3] and bias[2] != own[2]


def _read_twice(graph: onnx.GraphProto) -> None:
    graph.node.append(helper.make_node("Neg", ["ar"], ["n"], "n"))


def _an_output(graph: onnx.GraphProto) -> None:
    graph.output.append(helper.make_tensor_value_info("a", FLOAT, None))


def _a_shared_weight(graph: onnx.GraphProto) -> None:
    graph.node.append(helper.make_node("Neg", ["w1"], ["n"], "n"))


def _another_function(graph: onnx.GraphProto) -> None:
    graph.node[1].op_type = "Sigmoid"


@pytest.mark.parametrize("change", [_read_twice, _an_output, _a_shared_weight, _another_function])
def test_what_something_else_reads_or_is_no_relu_makes_no_pair(change: Any) -> None:
    model = uneven_model()
    change(model.graph)
    assert [pair.first.name for pair in pairs_of(model)] == ["b", "c", "g", "h"]
