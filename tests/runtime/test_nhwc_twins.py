"""A network that was exported in NHWC becomes the plan of its twin in NCHW, and computes the same."""

import functools
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

from runtime.convert import convert
from runtime.graph import Array, Graph
from runtime.lowering.lower import lower
from runtime.oracle.evaluate import evaluate
from runtime.plan.encode import encode_plan
from runtime.reference.device import target_of_device
from runtime.reference.executor import Executor
from runtime.target import Target
from tests.opencl import default_device
from tests.runtime.format_networks import NETWORKS
from tests.runtime.nhwc_twins import STYLES, Style, in_nhwc, nhwc_twin
from tests.runtime.onnx_models import onnx_model, random_array, run_onnxruntime

SIZE = 32
FAMILIES = {"buffer": "mali-bifrost", "image": "adreno-6xx"}
NEAR = 2  # steps


@functools.cache
def original(name: str) -> Graph:
    return convert(NETWORKS[name](SIZE))[0]


@functools.cache
def twin(name: str, style: Style) -> Graph:
    return convert(nhwc_twin(NETWORKS[name](SIZE), style))[0]


def image() -> Array:
    return np.random.default_rng(5).uniform(-1, 1, (1, 3, SIZE, SIZE)).astype(np.float32)


def assert_close(actual: Array, expected: Array, tolerance: float) -> None:
    assert np.abs(actual - expected).max() <= tolerance * np.abs(expected).max()


@pytest.mark.slow
@pytest.mark.parametrize("memory", FAMILIES)
@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("name", NETWORKS)
def test_the_plan_has_about_as_many_steps(name: str, style: Style, memory: str) -> None:
    target = Target("phone", "arm64-v8a", gpu_family=FAMILIES[memory], memory=memory, allow_cpu=True)
    steps = [len(lower(graph, target).steps) for graph in (original(name), twin(name, style))]
    assert abs(steps[0] - steps[1]) <= NEAR


@pytest.mark.slow
@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("name", NETWORKS)
def test_the_twin_computes_the_same(name: str, style: Style) -> None:
    """The twin as it was exported, in ONNX Runtime, shows that the generator is right, and converted, that we are."""
    (entry,), (result,) = original(name).inputs, original(name).outputs
    expected = in_nhwc(evaluate(original(name), {entry: image()})[result])
    given = {entry: in_nhwc(image())}
    (exported,) = run_onnxruntime(nhwc_twin(NETWORKS[name](SIZE), style), given)
    assert_close(exported, expected, 1e-4)
    assert_close(evaluate(twin(name, style), given)[result], expected, 1e-5)


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("name", NETWORKS)
def test_transposes_remain_at_inputs_and_outputs_only(name: str, style: Style) -> None:
    graph = twin(name, style)
    left = [node for node in graph.nodes if node.op == "Transpose"]
    assert all(node.inputs[0] in graph.inputs or node.output in graph.outputs for node in left)


@pytest.mark.slow
@pytest.mark.parametrize("memory", FAMILIES)
@pytest.mark.parametrize("name", ["unet", "squeeze_and_excitation", "shuffled_groups"])
def test_the_plan_of_the_twin_computes_the_same(name: str, memory: str) -> None:
    graph = twin(name, "affine")
    plan = lower(graph, target_of_device(default_device(), memory=memory, allow_cpu=True))
    given = {graph.inputs[0]: np.ascontiguousarray(in_nhwc(image()))}
    outputs = Executor(encode_plan(plan), plan.data, default_device()).run(given)
    assert_close(outputs[graph.outputs[0]], evaluate(graph, given)[graph.outputs[0]], 1e-3)


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
