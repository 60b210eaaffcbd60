"""The onnx package's own networks, with new weights, compute what ONNX Runtime computes, converted and lowered.

Their stored weights are constants, which makes outputs that hardly depend on the input: each gets seeded random weights
first. One test a network, because finding those weights takes longer than each of the checks. Two turns take all of
them but VGG-19, which takes as long as four others and has no layer that they lack: it is left to FARM_EXHAUSTIVE=1.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime
import pytest

from runtime import zoo
from runtime.convert import convert
from runtime.lowering.lower import lower
from runtime.oracle.evaluate import evaluate
from runtime.plan.encode import encode_plan
from runtime.reference.device import target_of_device
from runtime.reference.executor import Executor
from tests.opencl import EXHAUSTIVE, TURN, default_device

Array = npt.NDArray[np.float32]
FUSED_AWAY = {"BatchNormalization", "Relu", "Clip", "Add", "Identity", "FullyConnected", "Pad"}
# What may remain of FUSED_AWAY: activations and normalization after Concat, which takes neither.
REMAINING = {"shufflenet": {"Relu": 3}, "densenet121": {"BatchNormalization": 62}}
ENDS_IN_LOGITS = {"densenet121"}
NETWORKS = sorted(zoo.light_models())
OF_TURN = NETWORKS if EXHAUSTIVE else [name for name in NETWORKS if name != "vgg19"][TURN % 2 :: 2]


def outputs_of_onnxruntime(model: onnx.ModelProto, images: Array) -> Array:
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    name = session.get_inputs()[0].name
    return np.stack([session.run(None, {name: image[None]})[0] for image in images])


def assert_close(actual: Array, expected: Array, tolerance: float) -> None:
    assert np.abs(actual.reshape(expected.shape) - expected).max() <= tolerance * np.abs(expected).max()


def assert_depend_on_the_image(outputs: Array, are_logits: bool) -> None:
    """Each image has a class of its own, and the outputs of any two are hardly correlated."""
    assert np.isfinite(outputs).all()
    if not are_logits:
        assert (outputs.max(axis=1) > 0.02).all()
        assert np.median(outputs.max(axis=1)) < 0.95
        outputs = np.log(np.maximum(outputs, 1e-30))
    assert len(set(outputs.argmax(axis=1).tolist())) == 3
    assert np.corrcoef(outputs)[np.triu_indices(3, 1)].max() < 0.8


@pytest.mark.slow
@pytest.mark.parametrize("name", OF_TURN)
def test_a_network_with_random_weights_computes_what_onnxruntime_computes(name: str) -> None:
    original = onnx.load(zoo.light_models()[name])
    model = zoo.reweight(original)
    onnx.checker.check_model(model)
    assert [info.name for info in model.graph.output] == [info.name for info in original.graph.output]
    images = np.random.default_rng(11).uniform(-1, 1, (3, 3, 224, 224)).astype(np.float32)
    expected = outputs_of_onnxruntime(model, images)
    assert_depend_on_the_image(expected.reshape(len(images), -1), name in ENDS_IN_LOGITS)

    graph, _ = convert(model)
    operators = [node.op for node in graph.nodes]
    assert {op: operators.count(op) for op in FUSED_AWAY & set(operators)} == REMAINING.get(name, {})
    inputs = {graph.inputs[0]: images[:1]}
    assert_close(evaluate(graph, inputs)[graph.outputs[0]], expected[0], 1e-4)

    plan = lower(graph, target_of_device(default_device(), memory="buffer"))
    outputs = Executor(encode_plan(plan), plan.data, default_device()).run(inputs)
    assert_close(outputs[graph.outputs[0]], expected[0], 1e-3)
