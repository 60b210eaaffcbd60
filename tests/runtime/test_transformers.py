"""Transformers become few steps, in whatever form they are written, and compute on GPUs what ONNX Runtime does."""

import dataclasses
from collections import Counter
from collections.abc import Callable

import numpy as np
import onnx
import pytest

from runtime.convert import convert
from runtime.graph import Array, Graph
from runtime.lowering.lower import lower
from runtime.plan.encode import encode_plan
from runtime.plan.plan import Plan
from runtime.plan.records import StepKind
from runtime.reference.device import target_of_device
from runtime.reference.executor import Executor
from runtime.target import Target
from tests.opencl import default_device
from tests.runtime.onnx_models import inputs_of, run_onnxruntime
from tests.runtime.transformers import FORMS, Form, causal_block, encoder_block, vision_transformer

pytestmark = pytest.mark.opencl
BUFFER = target_of_device(default_device(), memory="buffer")
IMAGE = dataclasses.replace(BUFFER, memory="image")
MODELS: dict[str, Callable[[Form], onnx.ModelProto]] = {
    "block": encoder_block,
    "masked block": lambda form: encoder_block(form, masked=True),
    "causal block": causal_block,
    "vision transformer": vision_transformer,
}
# A block: two normalisations, attention, four layers (six where q, k and v have their own), two sums.
STEPS_OF_BLOCK = {"operators": 7, "pytorch": 7, "tensorflow": 7}
each_form = pytest.mark.parametrize("form", FORMS)


def cosine(a: Array, b: Array) -> float:
    a, b = a.astype(np.float64).reshape(-1), b.astype(np.float64).reshape(-1)
    return float(a @ b / np.sqrt((a @ a) * (b @ b)))


def planned(model: onnx.ModelProto, target: Target) -> tuple[Graph, Plan]:
    graph, _ = convert(model)
    assert not target.allow_cpu
    return graph, lower(graph, target)


@pytest.mark.slow
@pytest.mark.parametrize("target", [BUFFER, IMAGE], ids=lambda target: target.memory)
@pytest.mark.parametrize("name", MODELS)
@each_form
def test_a_transformer_computes_what_onnxruntime_computes(form: Form, name: str, target: Target) -> None:
    model = MODELS[name](form)
    graph, plan = planned(model, target)
    inputs = inputs_of(graph)
    (expected,) = run_onnxruntime(model, inputs)
    actual = Executor(encode_plan(plan), plan.data, default_device()).run(inputs)[graph.outputs[0]]
    assert round(cosine(actual, expected), 6) == 1.0


@each_form
def test_a_block_is_few_steps_and_all_of_them_on_the_gpu(form: Form) -> None:
    _, plan = planned(encoder_block(form), BUFFER)
    kernels = Counter(step.kernel.name for step in plan.steps)
    assert kernels["normalization"] == 2
    assert kernels["attention"] == 1
    assert not kernels.keys() & {"unary", "softmax", "copy", "reduce", "matmul"}
    assert all(step.kind == StepKind.OPENCL for step in plan.steps)
    assert len(plan.steps) == STEPS_OF_BLOCK[form]


@each_form
def test_gelu_is_the_activation_of_a_layer(form: Form) -> None:
    graph, _ = convert(encoder_block(form))
    fused = [node.attrs["activation"] for node in graph.nodes if "activation" in node.attrs]
    assert fused == ["gelu_tanh" if form == "tensorflow" else "gelu"]


@each_form
@pytest.mark.parametrize("target", [BUFFER, IMAGE], ids=lambda target: target.memory)
def test_a_vision_transformer_runs_on_the_gpu_alone(form: Form, target: Target) -> None:
    _, plan = planned(vision_transformer(form, blocks=2), target)
    assert all(step.kind == StepKind.OPENCL for step in plan.steps)
    assert len(plan.steps) <= 2 * STEPS_OF_BLOCK[form] + 10
