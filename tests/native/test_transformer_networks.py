"""The zoo's transformers, small, from ONNX to outputs: on the CPU, and with a GPU on buffers and images."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import onnx
import pytest

from runtime import zoo
from runtime.convert import convert
from runtime.graph import Array
from runtime.lowering.lower import lower
from runtime.plan.encode import encode_plan
from runtime.reference.device import target_of_device
from runtime.target import Target
from runtime.types import Precision
from tests import opencl
from tests.native.farmrt import Farmrt
from tests.native.test_agreement import assert_close

SIZES = {"vit_tiny": 48, "bert_mini": 9, "llama_small_prefill": 9, "llama_small_decode": 21}
WORDS = 10
CPU = Target("host", "host", memory="cpu")
HALF = dataclasses.replace(CPU, precision=Precision.FP16_STORAGE)
networks = pytest.mark.parametrize("name", SIZES)


def noise(model: onnx.ModelProto) -> dict[str, Array]:
    """Seeded words and numbers."""
    random = np.random.default_rng(7)
    values = {}
    for value in model.graph.input:
        shape = [axis.dim_value for axis in value.type.tensor_type.shape.dim]
        is_word = value.type.tensor_type.elem_type == onnx.TensorProto.INT64
        values[value.name] = random.integers(0, WORDS, shape) if is_word else random.uniform(-1, 1, shape)
    return {name: value if value.dtype == np.int64 else value.astype(np.float32) for name, value in values.items()}


def outputs_of_onnxruntime(model: onnx.ModelProto, inputs: dict[str, Array]) -> dict[str, Array]:
    from runtime.host.onnx_runtime import onnxruntime

    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, inputs), strict=True))


def check(farmrt: Farmrt, name: str, target: Target, tolerance: float = 1e-4, batch: int = 1) -> None:
    model = zoo.build(name, width=0.25, size=SIZES[name], classes=WORDS, batch=batch)
    inputs = noise(model)
    graph, _ = convert(model)
    plan = lower(graph, target)
    farmrt.run_loaded(farmrt.load_files(encode_plan(plan), plan.data), inputs, rounds=2)
    for output, expected in outputs_of_onnxruntime(model, inputs).items():
        assert_close(farmrt.output(output).reshape(expected.shape), expected, tolerance)


@networks
def test_the_cpu_computes_the_network(cpu: Farmrt, name: str) -> None:
    check(cpu, name, CPU)


@networks
def test_the_cpu_computes_a_batch(cpu: Farmrt, name: str) -> None:
    check(cpu, name, CPU, batch=3)


@networks
def test_the_cpu_computes_the_network_of_weights_in_half(cpu: Farmrt, name: str) -> None:
    check(cpu, name, HALF, 2e-3)


def test_weights_in_half_need_half_of_the_data_file() -> None:
    """Also the table of words."""
    graph, _ = convert(zoo.build("llama_small_decode", width=0.5, size=21, classes=1000))
    sizes = [len(bytes(lower(graph, target).data)) for target in (CPU, HALF)]
    assert sizes[1] < 0.52 * sizes[0]


@pytest.mark.slow
@pytest.mark.opencl
@pytest.mark.parametrize(
    ("gpu", "name", "memory"),
    [
        pytest.param(label, name, memory, id=f"{label}-{name}-{memory}")
        for n, name in enumerate(SIZES)
        for m, memory in enumerate(("buffer", "image"))
        for label in map(opencl.label, opencl.of_turn(n + m))
    ],
    indirect=["gpu"],
)
def test_a_gpu_alone_computes_the_network(gpu: Farmrt, name: str, memory: str) -> None:
    device: Any = opencl.open_once(gpu.library)
    check(gpu, name, target_of_device(device, memory=memory))
