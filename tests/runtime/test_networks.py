"""Whole networks of the zoo, converted and lowered, compute what ONNX Runtime computes on seeded inputs.

Small ones take turns in memory and precision: every network meets both of either, not all pairs; FARM_EXHAUSTIVE=1
takes all, and all networks in full size. Others of that size are in test_light_networks.
"""

import dataclasses

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime
import pytest

from runtime import zoo
from runtime.convert import convert
from runtime.graph import Array
from runtime.lowering.lower import Options, lower
from runtime.oracle.evaluate import evaluate
from runtime.plan.encode import encode_plan
from runtime.reference.device import target_of_device
from runtime.reference.executor import Executor
from runtime.target import Target
from runtime.types import Precision, asked_algorithms
from tests.opencl import EXHAUSTIVE, TURN, default_device

BUFFER = target_of_device(default_device(), memory="buffer")
SMALL = {"mobilenet_v1": 64, "mobilenet_v2": 64, "squeezenet_v11": 64, "resnet50": 64, "inception_v3": 96}
SETTINGS = [
    pytest.param(name, precision, memory, id=f"{name}-{precision.label}-{memory}")
    for number, name in enumerate(SMALL)
    for precision in (Precision.FP32, Precision.FP16_STORAGE)
    for place, memory in enumerate(("buffer", "image"))
    if EXHAUSTIVE or (number + precision + place) % 2 == 0
]


def noise(model: onnx.ModelProto, batch: int = 1) -> dict[str, Array]:
    """Seeded values for each input that no initializer fills; a symbolic batch becomes `batch`."""
    random = np.random.default_rng(7)
    constants = {initializer.name for initializer in model.graph.initializer}
    values = {}
    for value in model.graph.input:
        if value.name not in constants:
            shape = [axis.dim_value or batch for axis in value.type.tensor_type.shape.dim]
            values[value.name] = random.uniform(-1, 1, shape).astype(np.float32)
    return values


def outputs_of_onnxruntime(model: onnx.ModelProto, inputs: dict[str, Array]) -> dict[str, Array]:
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, inputs), strict=True))


def outputs_of_plan(
    model: onnx.ModelProto, inputs: dict[str, Array], target: Target, options: Options
) -> dict[str, Array]:
    graph, _ = convert(model, {name: value.shape for name, value in inputs.items()})
    plan = lower(graph, target, options)
    return Executor(encode_plan(plan), plan.data, default_device()).run(inputs)


def check(
    model: onnx.ModelProto, target: Target, tolerance: float, options: Options | None = None, batch: int = 1
) -> None:
    inputs = noise(model, batch)
    expected = outputs_of_onnxruntime(model, inputs)
    actual = outputs_of_plan(model, inputs, target, options or Options())
    for name, value in expected.items():
        error = np.abs(actual[name].reshape(value.shape) - value).max()
        assert error <= tolerance * np.abs(value).max(), name


@pytest.mark.slow
@pytest.mark.parametrize("name", SMALL if EXHAUSTIVE else ["mobilenet_v1", "mobilenet_v2", "squeezenet_v11"])
def test_a_full_size_zoo_network_computes_what_onnxruntime_computes(name: str) -> None:
    check(zoo.build(name), BUFFER, 1e-3)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "precision", "memory"), SETTINGS)
def test_a_small_zoo_network_computes_what_onnxruntime_computes(name: str, precision: Precision, memory: str) -> None:
    target = dataclasses.replace(BUFFER, memory=memory, precision=precision)
    tolerance = 1e-3 if precision == Precision.FP32 else 0.15
    check(zoo.build(name, width=0.25, size=SMALL[name]), target, tolerance, batch=2)


@pytest.mark.slow
@pytest.mark.parametrize("tile", [2, 4])
@pytest.mark.parametrize("memory", ["buffer", "image"])
def test_a_network_with_winograd_computes_what_onnxruntime_computes(memory: str, tile: int) -> None:
    target = dataclasses.replace(BUFFER, memory=memory)
    check(zoo.build("resnet50", width=0.25, size=64), target, 2e-3, Options(algorithms=asked_algorithms(tile)))


def test_one_small_network_computes_what_onnxruntime_computes() -> None:
    check(zoo.build("squeezenet_v11", width=0.25, size=48), BUFFER, 1e-3)


# The onnx package's own networks, with new weights, compute what ONNX Runtime computes, converted and lowered.
#
# Their stored weights are constants, which makes outputs that hardly depend on the input: each gets seeded random
# weights first. One test a network, because finding those weights takes longer than each of the checks. Two turns
# take all of them but VGG-19, which takes as long as four others and has no layer that they lack: it is left to
# FARM_EXHAUSTIVE=1.
Floats = npt.NDArray[np.float32]
FUSED_AWAY = {"BatchNormalization", "Relu", "Clip", "Add", "Identity", "FullyConnected", "Pad"}
# What may remain of FUSED_AWAY: activations and normalization after Concat, which takes neither.
REMAINING = {"shufflenet": {"Relu": 3}, "densenet121": {"BatchNormalization": 62}}
ENDS_IN_LOGITS = {"densenet121"}
NETWORKS = sorted(zoo.light_models())
OF_TURN = NETWORKS if EXHAUSTIVE else [name for name in NETWORKS if name != "vgg19"][TURN % 2 :: 2]


def onnxruntime_outputs(model: onnx.ModelProto, images: Floats) -> Floats:
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    name = session.get_inputs()[0].name
    return np.stack([session.run(None, {name: image[None]})[0] for image in images])


def assert_close(actual: Floats, expected: Floats, tolerance: float) -> None:
    assert np.abs(actual.reshape(expected.shape) - expected).max() <= tolerance * np.abs(expected).max()


def assert_depend_on_the_image(outputs: Floats, are_logits: bool) -> None:
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
    expected = onnxruntime_outputs(model, images)
    assert_depend_on_the_image(expected.reshape(len(images), -1), name in ENDS_IN_LOGITS)

    graph, _ = convert(model)
    operators = [node.op for node in graph.nodes]
    assert {op: operators.count(op) for op in FUSED_AWAY & set(operators)} == REMAINING.get(name, {})
    inputs = {graph.inputs[0]: images[:1]}
    assert_close(evaluate(graph, inputs)[graph.outputs[0]], expected[0], 1e-4)

    plan = lower(graph, target_of_device(default_device(), memory="buffer"))
    outputs = Executor(encode_plan(plan), plan.data, default_device()).run(inputs)
    assert_close(outputs[graph.outputs[0]], expected[0], 1e-3)
