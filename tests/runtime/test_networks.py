"""Whole networks of the zoo, converted and lowered, compute what ONNX Runtime computes on seeded inputs.

Small ones take turns in memory and precision: every network meets both of either, not all pairs; FARM_EXHAUSTIVE=1
takes all, and all networks in full size. Others of that size are in test_light_networks.
"""

from __future__ import annotations

import dataclasses

import numpy as np
import onnx
import onnxruntime
import pytest

from runtime import zoo
from runtime.convert import convert
from runtime.graph import Array
from runtime.lowering.lower import Options, lower
from runtime.plan.encode import encode_plan
from runtime.reference.device import target_of_device
from runtime.reference.executor import Executor
from runtime.target import Target
from runtime.types import Precision, asked_algorithms
from tests.opencl import EXHAUSTIVE, default_device

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
