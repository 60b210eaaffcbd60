"""Between convolutions on a GPU's buffers quantised tensors lie in bytes, and compute what the oracle does."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from farm.emulation.played_gpu import played_environment
from runtime.graph import Array, Graph
from runtime.lowering.lower import Options, emit_launches, lower
from runtime.oracle.evaluate import evaluate
from runtime.plan.encode import encode_plan
from runtime.plan.plan import Plan
from runtime.reference.executor import Executor
from runtime.semantics.quantization import Quantization
from runtime.target import Target, dot_of
from runtime.types import Dot, Precision
from tests.native.farmrt import Farmrt
from tests.native.test_agreement import run_on
from tests.native.test_quantized_convolution import rounded, rounding, whole_weights
from tests.opencl import default_device
from tests.runtime.graphs import GraphMaker

pytestmark = pytest.mark.opencl
STEP = 0.03
MOBILE = Target("phone", "host", gpu_family="mali-bifrost")
FINE, HALF_UNIT = 2.0**-7, 2.0**-4
# A GPU that is played with the instructions of each maker's extension.
PLAYED = {
    Dot.NONE: "mali-g72",
    Dot.KHRONOS: "adreno750",
    Dot.QUALCOMM: "adreno618:extensions=cl_khr_byte_addressable_store cl_qcom_dot_product8",
    Dot.ARM: "mali-g78",
}
HAS_AVX2 = "avx2" in Path("/proc/cpuinfo").read_text()


def chain() -> tuple[Graph, dict[str, Array]]:
    """Direct, depthwise and 1x1 convolutions with a zero point, whose padding is not 0 in bytes; one sum."""
    maker = GraphMaker()

    def conv(x: str, out: int, k: int, **attrs: object) -> str:
        y = maker.conv(x, out, k, activation="fake_quantize", **attrs)
        maker.graph.nodes[-1].attrs |= rounded(maker, y, step=STEP)
        whole_weights(maker, maker.graph.nodes[-1].inputs[1])
        return y

    first = conv(rounding(maker, maker.input(1, 3, 9, 8)), 16, 3)
    depthwise = conv(conv(first, 16, 3, group=16), 24, 1)
    wide = conv(depthwise, 20, 3, strides=(2, 2))
    after = conv(wide, 40, 1)
    inputs = {name: 2.5 * values for name, values in maker.noise().items()}
    return maker.finish(maker.conv(after, 12, 1), maker.add("Relu", conv(wide, 8, 1))), inputs


def codes(plan: Plan) -> list[int]:
    """Of each convolution what lies in bytes: 1 the output, 4 the input."""
    return [step.defines.get("BYTES", 0) for step in plan.steps if "Conv" in step.op]


def check(found: dict[str, Array], graph: Graph, inputs: dict[str, Array]) -> None:
    """One in a hundred may be a step off, where a sum lies in the middle of two."""
    expected = evaluate(graph, inputs)
    for name in graph.outputs:
        error = np.abs(found[name].reshape(expected[name].shape) - expected[name])
        assert np.quantile(error, 0.97) < 1e-4 and error.max() < 3 * STEP, name


def error_of(plan: Plan, graph: Graph, inputs: dict[str, Array]) -> float:
    found, expected = Executor(encode_plan(plan), plan.data, default_device()).run(inputs), evaluate(graph, inputs)
    return max(
        float(np.abs(found[name].reshape(expected[name].shape) - expected[name]).mean()) for name in graph.outputs
    )


def test_convolutions_pass_bytes_on() -> None:
    graph, inputs = chain()
    plan = lower(graph, MOBILE)
    assert codes(plan) == [5, 5, 5, 5, 4, 0, 4]
    check(Executor(encode_plan(plan), plan.data, default_device()).run(inputs), graph, inputs)


def test_bytes_are_as_exact_as_half_floats() -> None:
    graph, inputs = chain()
    in_bytes, in_floats = (
        lower(graph, Target("phone", "host", gpu_family=family, precision=Precision.FP16_STORAGE))
        for family in ("mali-bifrost", "pocl")
    )
    assert any(codes(in_bytes)) and not any(codes(in_floats)), "drivers for CPUs keep floats"
    assert error_of(in_bytes, graph, inputs) < 1.2 * error_of(in_floats, graph, inputs)


def test_what_is_had_as_an_output_is_had_in_floats() -> None:
    graph, inputs = chain()
    kept = graph.nodes[2].output
    plan = lower(graph, MOBILE, Options(keep=(kept,)))
    assert codes(plan)[:3] == [5, 5, 5]
    found = Executor(encode_plan(plan), plan.data, default_device()).run(inputs)
    expected = evaluate(dataclasses.replace(graph, outputs=[kept]), inputs)
    np.testing.assert_allclose(found[kept], expected[kept], atol=1e-5)


@pytest.mark.slow
def test_farmrt_computes_the_same(gpu: Farmrt) -> None:
    graph, inputs = chain()
    check(run_on(gpu, lower(graph, MOBILE), inputs), graph, inputs)


def in_powers_of_two(graph: Graph) -> Graph:
    """The network with every scale a power of two, so that floats hold whatever is computed, and results are exact."""
    for node in graph.nodes:
        if node.attrs.get("activation", node.op) in ("fake_quantize", "FakeQuantize"):
            node.attrs |= {"alpha": -113 * HALF_UNIT, "beta": 142 * HALF_UNIT}
            known = Quantization((HALF_UNIT,), (113,), None, "uint8")
            graph.tensors[node.output] = dataclasses.replace(graph.tensors[node.output], quantization=known)
        for name in node.inputs[1:2] if node.op in ("Conv", "FullyConnected") else ():
            constant = graph.constants[name]
            steps = np.clip(np.rint(constant / FINE), -127, 127).reshape(len(constant), -1)
            steps[:, 0] = 127  # what tells the scale of rows without one
            graph.constants[name] = steps.reshape(constant.shape) * np.float32(FINE)
            one = Quantization((FINE,) * len(constant), (0,) * len(constant), 0, "int8")
            graph.tensors[name] = dataclasses.replace(graph.tensors[name], quantization=one)
        for name in node.inputs[2:3] if node.op in ("Conv", "FullyConnected") else ():
            graph.constants[name] = np.rint(graph.constants[name] / (FINE * HALF_UNIT)) * np.float32(FINE * HALF_UNIT)
    return graph


@pytest.mark.parametrize("dot", PLAYED, ids=lambda dot: dot.name)
def test_dot_products_compute_what_a_cpu_computes_bit_for_bit(
    cpu: Farmrt, farmrt_program: Path, tmp_path: Path, dot: Dot
) -> None:
    graph, inputs = chain()
    plan = lower(in_powers_of_two(graph), dataclasses.replace(MOBILE, dot=dot))
    assert {step.defines.get("DOT", Dot.NONE) for step in plan.steps if step.kernel.name == "conv1x1"} == {dot}
    expected = run_on(cpu, lower(graph, Target("host", "host", memory="cpu")), inputs)
    variables = played_environment(PLAYED[dot])
    with Farmrt(farmrt_program, tmp_path, variables["FARM_OPENCL"], variables) as played:
        for name, values in run_on(played, plan, inputs).items():
            np.testing.assert_array_equal(values, expected[name])


def test_extensions_name_the_instructions() -> None:
    khronos, arm = "cl_khr_integer_dot_product", "cl_arm_integer_dot_product_accumulate_int8"
    assert dot_of([khronos, "cl_qcom_dot_product8"], "OpenCL 3.0 Adreno") == Dot.KHRONOS
    assert dot_of([khronos, "cl_qcom_dot_product8"], "OpenCL 2.0 Adreno") == Dot.QUALCOMM
    assert dot_of([arm], "OpenCL 2.0 v1") == Dot.ARM
    assert dot_of([khronos, "cl_khr_fp16"], "OpenCL 2.0") == Dot.NONE
    assert dot_of([], "OpenCL 3.0 PoCL", "pocl-3.1", ["avx2"]) == Dot.AVX2
    assert dot_of([], "OpenCL 3.0 PoCL", "pocl-3.1-avx512", ["avx2", "avx512f"]) == Dot.NONE


def whole_network() -> tuple[Graph, dict[str, Array]]:
    """An image through what MobileNets and ResNets are made of, and a gate and a join, to the scores of classes."""
    maker = GraphMaker()

    def rounds(op: str, *inputs: str, **attributes: object) -> str:
        return rounding(maker, maker.add(op, *inputs, **attributes))

    def conv(x: str, out: int, k: int, **attrs: object) -> str:
        y = maker.conv(x, out, k, activation="fake_quantize", **attrs)
        maker.graph.nodes[-1].attrs |= rounded(maker, y, step=STEP)
        return y

    def add(op: str, a: str, b: str) -> str:
        y = maker.add(op, a, b, activation="fake_quantize")
        maker.graph.nodes[-1].attrs |= rounded(maker, y, step=STEP)
        return y

    window = {"kernel": (2, 2), "strides": (2, 2), "pads": (0, 0, 0, 0)}
    first = conv(rounding(maker, maker.input(1, 3, 16, 16)), 16, 3)
    block = add("Add", conv(conv(first, 16, 3, group=16), 16, 1), first)
    pooled = maker.add("MaxPool", block, **window)
    maker.graph.tensors[pooled] = dataclasses.replace(
        maker.graph.tensors[pooled], quantization=maker.graph.tensors[block].quantization
    )
    pooled = rounding(maker, pooled)
    gated = add("Mul", pooled, rounds("Sigmoid", pooled))
    joined = rounds("Concat", gated, conv(pooled, 16, 3), axis=1)
    mean = rounds(
        "ReduceMean", rounds("AveragePool", joined, count_include_pad=False, **window), axes=(2, 3), keepdims=True
    )
    flat = rounds("Reshape", mean, shape=(1, 32))
    scores = maker.add("FullyConnected", flat, maker.weights(40, 32), maker.weights(40), activation="fake_quantize")
    maker.graph.nodes[-1].attrs |= rounded(maker, scores, step=STEP)
    inputs = {name: 2.5 * values for name, values in maker.noise().items()}
    return in_powers_of_two(maker.finish(scores)), inputs


@pytest.mark.parametrize(
    ("dot", "family"),
    [
        (Dot.ARM, "mali-valhall"),
        pytest.param(Dot.AVX2, "pocl-3.1", marks=pytest.mark.skipif(not HAS_AVX2, reason="no AVX2")),
        pytest.param(Dot.AVX2, "pocl", marks=pytest.mark.skipif(not HAS_AVX2, reason="no AVX2")),
    ],
)
def test_a_network_stays_in_bytes_from_its_first_to_its_last_layer(
    cpu: Farmrt, farmrt_program: Path, tmp_path: Path, dot: Dot, family: str
) -> None:
    graph, inputs = whole_network()
    target = dataclasses.replace(MOBILE, dot=dot, gpu_family=family)
    assert [each.tensor for each in emit_launches(graph, target, Options()).conversions] == []
    plan = lower(graph, target)
    assert [step.defines["BYTES"] for step in plan.steps] == [1, *[5] * (len(plan.steps) - 2), 4]
    expected = run_on(cpu, lower(graph, Target("host", "host", memory="cpu")), inputs)
    variables = played_environment(PLAYED[Dot.ARM])  # computes by PoCL
    with Farmrt(farmrt_program, tmp_path, variables["FARM_OPENCL"], variables) as played:
        found = run_on(played, plan, inputs)
    np.testing.assert_array_equal(found[graph.outputs[0]], expected[graph.outputs[0]])
