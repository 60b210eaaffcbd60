"""Convolutions along one axis fuse with what follows, in NCL and in the two ways in which they are exported in NLC."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

from runtime.convert import convert
from runtime.lowering.lower import lower
from runtime.oracle.evaluate import evaluate
from runtime.target import Target
from tests.runtime.onnx_models import onnx_model, random_array, run_onnxruntime

LENGTH, CHANNELS = 16, (4, 8, 8, 8)
Layer = list[tuple[str, list[str], dict[str, Any]]]
CONV: dict[str, Layer] = {
    "NCL": [("Conv", ["w"], {"pads": [1, 1]})],
    "NLC": [
        ("Transpose", [], {"perm": [0, 2, 1]}),
        ("Conv", ["w"], {"pads": [1, 1]}),
        ("Transpose", [], {"perm": [0, 2, 1]}),
    ],
    "NLC as rows of images": [
        ("Unsqueeze", ["axis"], {}),
        ("Transpose", [], {"perm": [0, 3, 1, 2]}),
        ("Conv", ["w"], {"pads": [0, 1, 0, 1]}),
        ("Transpose", [], {"perm": [0, 2, 3, 1]}),
        ("Squeeze", ["axis"], {}),
    ],
}


def network(order: str) -> onnx.ModelProto:
    """Three convolutions, each with a scale, a shift and an activation."""
    constants: dict[str, Any] = {"axis": np.array([1])}
    nodes, x = [], "x"
    for step in range(3):
        inputs, outputs = CHANNELS[step : step + 2]
        window = (1, 3) if "images" in order else (3,)
        constants[f"w{step}"] = random_array((outputs, inputs, 3), step).reshape(outputs, inputs, *window)
        shape = (outputs,) if "NLC" in order else (outputs, 1)
        for name, seed in (("scale", 10 + step), ("shift", 20 + step)):
            constants[f"{name}{step}"] = random_array(shape, seed)
        following: Layer = [("Mul", ["scale"], {}), ("Add", ["shift"], {}), ("Relu", [], {})]
        for index, (op, others, attributes) in enumerate([*CONV[order], *following]):
            names = [name if name == "axis" else f"{name}{step}" for name in others]
            nodes.append(helper.make_node(op, [x, *names], [f"y{step}_{index}"], **attributes))
            x = f"y{step}_{index}"
    sequence = (1, LENGTH, CHANNELS[0]) if "NLC" in order else (1, CHANNELS[0], LENGTH)
    return onnx_model(nodes, {"x": sequence}, [x], constants)


@pytest.mark.parametrize("order", CONV)
def test_three_layers_are_three_convolutions(order: str) -> None:
    graph, _ = convert(network(order))
    assert [node.op for node in graph.nodes if node.op not in ("Reshape", "Transpose")] == ["Conv"] * 3
    for memory in ("buffer", "image"):
        target = Target("phone", "arm64-v8a", gpu_family="adreno-6xx", memory=memory)
        twin, _ = convert(network("NCL"))
        assert abs(len(lower(graph, target).steps) - len(lower(twin, target).steps)) <= 2


@pytest.mark.parametrize("order", CONV)
def test_the_layers_compute_what_onnxruntime_computes(order: str) -> None:
    model = network(order)
    graph, _ = convert(model)
    inputs = {"x": random_array(graph.shape("x"), 5)}
    (expected,) = run_onnxruntime(model, inputs)
    np.testing.assert_allclose(evaluate(graph, inputs)[graph.outputs[0]], expected, rtol=1e-4, atol=1e-4)
