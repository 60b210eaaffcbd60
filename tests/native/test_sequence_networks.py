"""Networks with transposed convolutions and recurrent layers, from ONNX to outputs, on the CPU, buffers and images.

Each network runs in both memory types and precisions, for which the drivers take turns; FARM_EXHAUSTIVE=1 runs all of
them on every driver.
"""

from typing import Any

import numpy as np
import pytest

from runtime.graph import Array, Graph
from runtime.importers.onnx_importer import import_onnx
from runtime.lowering.lower import lower
from runtime.passes.pipeline import run_passes
from runtime.plan.encode import encode_plan
from runtime.plan.plan import Plan
from runtime.plan.records import StepKind
from runtime.reference.device import target_of_device
from runtime.reference.executor import Executor
from runtime.target import Target
from runtime.types import Precision
from tests import opencl
from tests.native.farmrt import Farmrt
from tests.native.test_agreement import run_on
from tests.runtime.onnx_models import inputs_of, run_onnxruntime
from tests.runtime.sequence_networks import NETWORKS

CPU = Target("host", "host", memory="cpu")
UNET = ["conv2d", "pool", "conv2d", "pool", "conv2d", "deconv2d", "conv2d", "deconv2d", "conv2d", "conv1x1"]
CRNN = [
    *("conv2d", "pool") * 2,
    "conv2d",
    *("conv1x1", "recurrent_sequence") * 2,
    "conv1x1",
    "softmax",
]
# The kernels of a plan without copies and conversions; on images two concatenations come on top.
# Without a kernel for blocks of channels: transposed convolutions, and what works on rows.
IN_BLOCKS = ["blocked_conv2d", "blocked_pool"] * 2 + ["blocked_conv2d", "reorder"]
CPU_KERNELS = {
    "unet": [
        *(*IN_BLOCKS[:4], "blocked_winograd", "reorder"),
        *("deconv2d", "reorder", "blocked_winograd", "reorder", "deconv2d"),
        *("blocked_conv2d", "blocked_conv2d", "deconv_depthwise"),
    ],
    "generator": ["deconv2d"] * 5,
    "crnn": [*IN_BLOCKS, *["conv1x1", "recurrent_sequence"] * 2, "conv1x1", "softmax"],
}
KERNELS = {"unet": [*UNET, "deconv_depthwise"], "generator": ["deconv2d"] * 5, "crnn": CRNN}
MOVES = {"copy", "buffer_to_image", "image_to_buffer", "concat"}
STEPS = {"unet": (12, 15), "generator": (6, 7), "crnn": (13, 14)}  # on buffers, on images
networks = pytest.mark.parametrize("name", NETWORKS)


def by_turns(first: int) -> list[Any]:
    """(driver, network, memory); `first` shifts the turns."""
    return [
        pytest.param(label, name, memory, id=f"{label}-{name}-{memory}")
        for n, name in enumerate(NETWORKS)
        for m, memory in enumerate(("buffer", "image"))
        for label in map(opencl.label, opencl.of_turn(first + n + m))
    ]


def gpu_kernels(name: str, memory: str) -> list[str]:
    """On buffers the first convolution reads the input as it lies."""
    first, *others = KERNELS[name]
    return ["conv2d_planes" if (first, memory) == ("conv2d", "buffer") else first, *others]


def converted(name: str) -> tuple[Graph, dict[str, Array], Array]:
    """The graph of a network, its inputs, and what ONNX Runtime computes."""
    model = NETWORKS[name]()
    graph = import_onnx(model)
    run_passes(graph)
    inputs = inputs_of(graph)
    return graph, inputs, run_onnxruntime(model, inputs)[0]


def cosine(a: Array, b: Array) -> float:
    left, right = (value.astype(np.float64).reshape(-1) for value in (a, b))
    return float(left @ right / np.sqrt((left @ left) * (right @ right)))


def kernels(plan: Plan) -> list[str]:
    return [step.kernel.name for step in plan.steps if step.kernel.name not in MOVES]


@networks
def test_the_cpu_computes_the_network(cpu: Farmrt, name: str) -> None:
    graph, inputs, expected = converted(name)
    plan = lower(graph, CPU)
    assert kernels(plan) == CPU_KERNELS[name]
    assert f"{cosine(run_on(cpu, plan, inputs)[graph.outputs[0]], expected):.6f}" == "1.000000"


@pytest.mark.slow
@pytest.mark.opencl
@pytest.mark.parametrize(("gpu", "name", "memory"), by_turns(0), indirect=["gpu"])
def test_the_gpu_computes_the_network_alone(gpu: Farmrt, name: str, memory: str) -> None:
    graph, inputs, expected = converted(name)
    device: Any = opencl.open_once(gpu.library)
    plan = lower(graph, target_of_device(device, memory=memory))
    assert all(step.kind == StepKind.OPENCL for step in plan.steps)
    assert kernels(plan) == gpu_kernels(name, memory)
    assert len(plan.steps) == STEPS[name][memory == "image"]
    found = run_on(gpu, plan, inputs)[graph.outputs[0]]
    assert f"{cosine(found, expected):.6f}" == "1.000000"
    reference = Executor(encode_plan(plan), plan.data, device).run(inputs)[graph.outputs[0]]
    np.testing.assert_allclose(found, reference, rtol=0, atol=2e-5)


@pytest.mark.slow
@pytest.mark.opencl
@pytest.mark.parametrize(("gpu", "name", "memory"), by_turns(2), indirect=["gpu"])
def test_half_storage_stays_near(gpu: Farmrt, name: str, memory: str) -> None:
    graph, inputs, expected = converted(name)
    target = target_of_device(opencl.open_once(gpu.library), memory=memory, precision=Precision.FP16_STORAGE)
    assert cosine(run_on(gpu, lower(graph, target), inputs)[graph.outputs[0]], expected) > 0.9999
