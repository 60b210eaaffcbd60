"""A network that was exported in NHWC becomes the plan of its twin in NCHW, and computes the same."""

from __future__ import annotations

import functools

import numpy as np
import pytest

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
from tests.runtime.onnx_models import run_onnxruntime

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
