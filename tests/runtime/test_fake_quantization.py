"""What quantises and dequantises around float operators becomes an activation of theirs."""

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto

from runtime.convert import convert
from runtime.graph import Graph
from runtime.importers.onnx_importer import import_onnx
from runtime.oracle.evaluate import evaluate
from runtime.passes.expansion import expand_operators
from runtime.passes.fake_quantization import fake_steps
from tests.runtime.onnx_models import inputs_of
from tests.runtime.test_quantization import IMAGE, draw, of_channels, quantized

# Zero is the least of the second, and within the first.
PARAMETERS = {"s": np.float32(0.05), "z": np.uint8(90), "s2": np.float32(0.03), "z2": np.uint8(0)}
PARAMETERS |= {"fine": np.float32(0.0003), "z16": np.uint16(9000)}
BOUNDS = {"low": np.float32(0.01), "high": np.float32(255 * 0.03 - 0.01)}
SHAPE = {"shape": np.array([1, -1], np.int64)}
WEIGHTS = {**of_channels(6), "wq": draw(np.int8, 6, 4, 3, 3)}
LOAD = ("DequantizeLinear", "wq ws wz", "w", {"axis": 0})


def step(x: str, y: str, parameters: str = "s z") -> list[tuple[Any, ...]]:
    return [("QuantizeLinear", f"{x} {parameters}", f"{y}q", {}), ("DequantizeLinear", f"{y}q {parameters}", y, {})]


def operators(graph: Graph) -> list[str]:
    """Each operator, and the activation that it has."""
    return ["+".join(filter(None, (node.op, node.attrs.get("activation")))) for node in graph.nodes]


PADS = {"pads": np.array([0, 0, 1, 1, 0, 0, 1, 1], np.int64), "one": np.float32(1)}
POOL = {"kernel_shape": [3, 3]}
CONV = ("Conv", "a w", "c", {"pads": [1, 1, 1, 1]})
TRANSPOSE = ("Transpose", "a", "t", {"perm": [0, 2, 1, 3]})
MODELS: dict[str, tuple[list[tuple[Any, ...]], list[str]]] = {
    "a convolution": ([LOAD, *step("x", "a"), CONV, *step("c", "y")], ["FakeQuantize", "Conv+fake_quantize"]),
    "a clamp that the limits include": (
        [LOAD, *step("x", "a"), CONV, ("Relu", "c", "r", {}), *step("r", "y", "s2 z2")],
        ["FakeQuantize", "Conv+fake_quantize"],
    ),
    "a clamp within less than half a step": (
        [LOAD, *step("x", "a"), CONV, ("Clip", "c low high", "r", {}), *step("r", "y", "s2 z2")],
        ["FakeQuantize", "Conv+fake_quantize"],
    ),
    "a clamp that is narrower": (
        [LOAD, *step("x", "a"), CONV, ("Relu", "c", "r", {}), *step("r", "y")],
        ["FakeQuantize", "Conv+relu", "FakeQuantize"],
    ),
    "the same behind what moves": (
        [*step("x", "a"), TRANSPOSE, ("Concat", "t t", "j", {"axis": 1}), *step("j", "k"), ("Neg", "k", "y", {})],
        ["FakeQuantize", "Transpose", "Concat", "Neg"],
    ),
    "behind a reshape": (
        [*step("x", "a"), LOAD, CONV, ("Reshape", "c shape", "r", {}), *step("r", "k"), ("Neg", "k", "y", {})],
        ["FakeQuantize", "Conv+fake_quantize", "Reshape", "Neg"],
    ),
    "the same behind zeros": (
        [LOAD, *step("x", "k"), ("Pad", "k pads", "p", {}), *step("p", "a"), ("Conv", "a w", "c", {}), *step("c", "y")],
        ["FakeQuantize", "Conv+fake_quantize"],
    ),
    "the greatest, also of zeros, of what is not less": (
        [*step("x", "k", "s2 z2"), ("Pad", "k pads", "p", {}), *step("p", "a", "s2 z2"), ("MaxPool", "a", "y", POOL)],
        ["FakeQuantize", "MaxPool"],
    ),
    "the same behind other numbers": (
        [*step("x", "k"), ("Pad", "k pads one", "p", {}), *step("p", "a"), ("MaxPool", "a", "y", POOL)],
        ["FakeQuantize", "Pad", "FakeQuantize", "MaxPool"],
    ),
    "the same of the same": (
        [*step("x", "a"), *step("x", "b"), ("Neg", "a", "c", {}), ("Exp", "b", "d", {}), ("Add", "c d", "y", {})],
        ["FakeQuantize", "Neg", "Exp", "Add"],
    ),
    "of sixteen bits": (
        [LOAD, *step("x", "a", "fine z16"), CONV, *step("c", "y", "fine z16")],
        ["FakeQuantize16", "Conv+fake_quantize16"],
    ),
    "integers of sixteen bits that move": (
        [
            ("QuantizeLinear", "x fine z16", "q", {}),
            ("Transpose", "q", "t", {"perm": [0, 2, 1, 3]}),
            ("DequantizeLinear", "t fine z16", "y", {}),
        ],
        ["FakeQuantize16", "Transpose"],
    ),
    "another behind what moves": (
        [*step("x", "a"), ("Concat", "a a", "j", {"axis": 1}), *step("j", "y", "s2 z2")],
        ["FakeQuantize", "Concat", "FakeQuantize"],
    ),
}


@pytest.mark.parametrize("name", MODELS)
def test_quantising_and_dequantising_becomes_an_activation(name: str) -> None:
    nodes, expected = MODELS[name]
    model = quantized(nodes, {**PARAMETERS, **WEIGHTS, **BOUNDS, **SHAPE, **PADS})
    graph, _ = convert(model)
    assert operators(graph) == expected
    before = import_onnx(model)
    inputs = inputs_of(before, low=-8.0, high=8.0)
    wanted, found = evaluate(before, inputs)["y"], evaluate(graph, inputs)["y"]
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)


OTHERS: dict[str, tuple[list[tuple[Any, ...]], list[str]]] = {
    "other numbers": (
        [("QuantizeLinear", "x s z", "q", {}), ("DequantizeLinear", "q s2 z", "y", {})],
        ["Div", "Round", "Add", "Clip", "Elementwise", "Elementwise", "Sub", "Mul"],
    ),
    "numbers along an axis": (
        [("QuantizeLinear", "x ws4 wz4", "q", {"axis": 1}), ("DequantizeLinear", "q ws4 wz4", "y", {"axis": 1})],
        ["Div", "Round", "Max", "Min", "Mul"],
    ),
    "scales along an axis": (
        [("QuantizeLinear", "x ws4 w0", "q", {"axis": 1}), ("DequantizeLinear", "q ws4 w0", "y", {"axis": 1})],
        ["Div", "Round", "Clip", "Mul"],
    ),
}


@pytest.mark.parametrize("name", OTHERS)
def test_what_an_activation_cannot_say_rounds_in_floats_where_the_numbers_are_the_same(name: str) -> None:
    nodes, expected = OTHERS[name]
    channels = {f"{key}4": value for key, value in of_channels(4).items()} | {"w0": np.zeros(4, np.int8)}
    model = quantized(nodes, {**PARAMETERS, **channels})
    graph = import_onnx(model)
    inputs = inputs_of(graph, low=-8.0, high=8.0)
    wanted = evaluate(graph, inputs)["y"]
    expand_operators(graph)
    assert [node.op for node in graph.nodes] == expected
    np.testing.assert_allclose(evaluate(graph, inputs)["y"], wanted, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(evaluate(convert(model)[0], inputs)["y"], wanted, rtol=1e-5, atol=1e-6)


def test_integers_that_the_model_returns_stay() -> None:
    model = quantized(step("x", "y"), PARAMETERS)
    model.graph.output.append(onnx.helper.make_tensor_value_info("yq", TensorProto.UINT8, None))
    graph, _ = convert(model)
    values = evaluate(graph, inputs_of(graph, low=-8.0, high=8.0))
    assert graph.shape("y") == IMAGE and values["yq"].dtype == np.uint8
    whole = (values["yq"].astype(np.int32) - 90) * np.float32(0.05)
    np.testing.assert_allclose(values["y"], whole, rtol=1e-5, atol=1e-6)


def test_what_tensors_stand_for_stays_where_transposes_move() -> None:
    """As in a network that is NHWC: its transposes cancel, and convolutions between them read known steps."""
    there, back = {"perm": [0, 2, 3, 1]}, {"perm": [0, 3, 1, 2]}
    nodes = [
        *step("x", "a"),
        ("Transpose", "a", "t", there),
        ("Sigmoid", "t", "m", {}),
        *step("m", "n"),
        ("Add", "n one", "o", {}),
        *step("o", "p"),
        ("Transpose", "p", "y", back),
    ]
    graph, _ = convert(quantized(nodes, {**PARAMETERS, "one": np.ones((1, 1, 1, 4), np.float32)}))
    assert "Transpose" not in operators(graph)
    rounding = [node.output for node in graph.nodes if fake_steps(node)]
    assert len(rounding) == 3 and all(graph.tensors[name].quantization for name in rounding)
