"""Convolutions in eight bits against the oracle, which rounds floats, on every instruction set of this CPU."""

import dataclasses
import itertools
from pathlib import Path

import numpy as np
import pytest

from runtime.families.convolution import quantized_lowering
from runtime.graph import Array, Graph
from runtime.lowering.lower import Options, lower
from runtime.lowering.options import CPU_WINOGRAD, CpuOptions
from runtime.native.build import build_farmrt
from runtime.oracle.evaluate import evaluate
from runtime.plan.encode import encode_plan
from runtime.plan.plan import Plan
from runtime.semantics.quantization import Quantization
from runtime.target import Target, cpu_fields, gains_by_bytes
from runtime.types import Algorithm
from tests.native.blocked_cases import CONVOLUTIONS, Convolution
from tests.native.farmrt import Farmrt
from tests.runtime.graphs import GraphMaker

CPU = Target("host", "host", memory="cpu")
BLOCKS = (8, 16)
ISAS = ("generic", "avx2", "avxvnni", "avx512", "avx512vnni")
CASES = CONVOLUTIONS
STEP, ZERO, LAST = 0.02, 113, 0.03
NHWC = 2  # of the option FIRST


def rounded(maker: GraphMaker, tensor: str, integers: str = "uint8", step: float = STEP) -> dict[str, float]:
    """Tells of a tensor that it holds steps of eight bits; returns the limits."""
    zero = ZERO if integers == "uint8" else ZERO - 128
    info = maker.graph.tensors[tensor]
    known = Quantization((step,), (zero,), None, integers)
    maker.graph.tensors[tensor] = dataclasses.replace(info, quantization=known)
    return {"alpha": -ZERO * step, "beta": (255 - ZERO) * step}


def rounding(maker: GraphMaker, x: str, integers: str = "uint8") -> str:
    y = maker.add("FakeQuantize", x, alpha=0.0, beta=1.0)
    maker.graph.nodes[-1].attrs |= rounded(maker, y, integers)
    return y


def whole_weights(maker: GraphMaker, tensor: str, largest: int = 127) -> None:
    """A weight in steps of eight bits, another for each output channel; those of the first one are all the largest."""
    graph = maker.graph
    weights = graph.constants[tensor]
    weights[0] = np.abs(weights[0]).max()
    scales = (np.abs(weights).max(axis=(1, 2, 3)) / largest).astype(np.float32)
    graph.constants[tensor] = np.rint(weights / scales[:, None, None, None]) * scales[:, None, None, None]
    known = Quantization(tuple(scales.tolist()), (0,) * scales.size, 0, "int8")
    graph.tensors[tensor] = dataclasses.replace(graph.tensors[tensor], quantization=known)


def network(case: Convolution, integers: str = "uint8", largest: int = 127) -> tuple[Graph, dict[str, Array]]:
    """The convolution from bytes to bytes, and behind it one of 1x1 from bytes to floats."""
    maker = GraphMaker()
    x = rounding(maker, image(maker, case), integers)
    d = case.dims
    operands = [x, maker.weights(case.channels[1], case.channels[0] // groups_of(case), *case.kernel)]
    operands.append(maker.weights(case.channels[1]))
    whole_weights(maker, operands[1], largest)
    if case.residual:
        shape = (case.batch, case.channels[1], d["out_h"], d["out_w"])
        operands.append(rounding(maker, maker.input(*shape), integers))
    windows = {"strides": case.stride, "pads": case.pads, "dilations": case.dilation, "group": groups_of(case)}
    y = maker.add("Conv", *operands, **windows)
    maker.graph.nodes[-1].attrs |= {"activation": "fake_quantize", **rounded(maker, y, "uint8", LAST)}
    z = maker.conv(y, 70, k=1, activation="swish", alpha=1.0)
    whole_weights(maker, maker.graph.nodes[-1].inputs[1], largest)
    inputs = {name: 2.5 * values for name, values in maker.noise().items()}
    return maker.finish(y, z), inputs


def image(maker: GraphMaker, case: Convolution) -> str:
    if case.first != NHWC:
        return maker.input(case.batch, case.channels[0], *case.size)
    return maker.add("Transpose", maker.input(case.batch, *case.size, case.channels[0]), perm=(0, 3, 1, 2))


def groups_of(case: Convolution) -> int:
    return case.channels[0] if case.depthwise else case.groups


def quantized_steps(plan: Plan) -> int:
    return sum(step.kernel.name in ("quantized_conv2d", "quantized_depthwise") for step in plan.steps)


def check(farmrt: Farmrt, case: Convolution, block: int, isa: str = "", threads: int = 2, largest: int = 127) -> None:
    graph, inputs = network(case, largest=largest)
    plan = lower(graph, CPU, Options(cpu=CpuOptions(block, algorithms={})))
    check_plan(farmrt, graph, inputs, plan, isa, threads)


def check_plan(
    farmrt: Farmrt, graph: Graph, inputs: dict[str, Array], plan: Plan, isa: str = "", threads: int = 2
) -> None:
    answer = farmrt.load_files(encode_plan(plan), plan.data, threads=threads, isa=isa or None)
    farmrt.run_loaded(answer, inputs)
    expected = evaluate(graph, inputs)
    rounded_to, behind = graph.outputs
    steps = (farmrt.output(rounded_to).reshape(graph.shape(rounded_to)) - expected[rounded_to]) / LAST
    np.testing.assert_allclose(steps, np.rint(steps), atol=1e-3)
    assert np.abs(steps).max() < 1.01
    assert (np.abs(steps) > 0.5).mean() <= 1e-3
    if not (np.abs(steps) > 0.5).any():
        np.testing.assert_allclose(
            farmrt.output(behind).reshape(graph.shape(behind)), expected[behind], atol=2e-4, rtol=2e-5
        )


@pytest.mark.parametrize("isa", [ISAS[0], *(pytest.param(isa, marks=pytest.mark.slow) for isa in ISAS[1:])])
@pytest.mark.parametrize(("name", "block"), list(itertools.product(CASES, BLOCKS)))
def test_convolution(farmrt: Farmrt, name: str, block: int, isa: str) -> None:
    check(farmrt, CASES[name], block, isa)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "block"), list(itertools.product(CASES, BLOCKS)))
def test_weights_of_seven_bits(farmrt: Farmrt, name: str, block: int) -> None:
    check(farmrt, CASES[name], block, "avx2", largest=64)


@pytest.mark.parametrize("block", BLOCKS)
@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.first])
def test_a_first_convolution_rounds_the_image_as_it_lies(name: str, block: int) -> None:
    graph, _ = network(CASES[name])
    plan = lower(graph, CPU, Options(cpu=CpuOptions(block, algorithms={})))
    first = next(step for step in plan.steps if step.kernel.name == "quantized_conv2d")
    assert first.defines.get("FIRST") == CASES[name].first
    reorders = [step.shown.output_shape[1] for step in plan.steps if step.kernel.name == "quantized_reorder"]
    assert CASES[name].channels[0] not in reorders


@pytest.mark.parametrize("kept", [True, False])
def test_an_image_that_others_read_too_is_brought_into_bytes_once(farmrt: Farmrt, kept: bool) -> None:
    graph, inputs = network(CASES["first 3x3 stride 2"])
    rounded_image, written = graph.nodes[0].output, graph.outputs[0]
    if not kept:
        graph = dataclasses.replace(graph, outputs=[rounded_image, *graph.outputs])
    plan = lower(graph, CPU, Options(keep=(rounded_image,) if kept else ()))
    assert plan.steps[0].kernel.name == "quantized_reorder"
    assert not any(step.defines.get("FIRST") for step in plan.steps)
    farmrt.run_loaded(farmrt.load_files(encode_plan(plan), plan.data), inputs)
    expected = evaluate(graph, inputs)
    for name, step in ((rounded_image, STEP), (written, LAST)):
        steps = (farmrt.output(name).reshape(graph.shape(name)) - expected[name]) / step
        assert np.abs(steps).max() < 1.01 and (np.abs(steps) > 0.5).mean() <= 1e-3


@pytest.mark.parametrize(("largest", "are_safe"), [(64, True), (65, False)])
def test_pairs_are_summed_in_16_bits_where_these_hold_them(largest: int, are_safe: bool) -> None:
    graph, _ = network(CASES["1x1"], largest=largest)
    steps = [step for step in lower(graph, CPU).steps if step.kernel.name == "quantized_conv2d"]
    assert [bool(step.defines["BYTES"] & 8) for step in steps] == [are_safe, are_safe]


# Tiles within the image and across each edge; channels that fill no block or no sixteen.
WINOGRAD = (
    Convolution((48, 40), (9, 12), pads=(1, 1, 1, 1)),
    Convolution((19, 70), (13, 6), pads=(0, 2, 1, 0), residual=True, batch=2),
    Convolution((110, 17), (8, 29), pads=(1, 1, 1, 1)),
)


def winograd_plans(case: Convolution, block: int) -> tuple[Graph, dict[str, Array], list[Plan]]:
    """A convolution to bytes by Winograd's algorithm in integers, and directly."""
    graph, inputs = network(case)
    (node,) = (node for node in graph.nodes if node.op == "Conv" and graph.shape(node.inputs[1])[2:] == (3, 3))
    chosen: tuple[dict[str, Algorithm], ...] = ({node.output: CPU_WINOGRAD}, {})
    target = dataclasses.replace(CPU, cpu_pairs=True)
    plans = [lower(graph, target, Options(cpu=CpuOptions(block, algorithms=each))) for each in chosen]
    return graph, inputs, plans


@pytest.mark.parametrize("isa", [ISAS[1], *(pytest.param(isa, marks=pytest.mark.slow) for isa in (ISAS[0], *ISAS[2:]))])
@pytest.mark.parametrize(("case", "block"), list(itertools.product(WINOGRAD, BLOCKS)))
def test_winograds_algorithm_in_integers_has_the_bits_of_the_direct_one(
    farmrt: Farmrt, case: Convolution, block: int, isa: str
) -> None:
    graph, inputs, plans = winograd_plans(case, block)
    found = []
    for plan in plans:
        answer = farmrt.load_files(encode_plan(plan), plan.data, threads=3, isa=isa)
        farmrt.run_loaded(answer, inputs)
        found.append([farmrt.output(name) for name in graph.outputs])
    assert [step.kernel.name for plan in plans for step in plan.steps].count("integer_winograd") == 1
    for winograd, direct in zip(*found, strict=True):
        np.testing.assert_array_equal(winograd, direct)
    check_plan(farmrt, graph, inputs, plans[0], isa)


@pytest.mark.slow
@pytest.mark.parametrize(("case", "block"), list(itertools.product(WINOGRAD, BLOCKS)))
def test_no_access_of_winograds_algorithm_is_outside_of_memory(tmp_path: Path, case: Convolution, block: int) -> None:
    with Farmrt(build_farmrt(sanitize=True), tmp_path) as sanitized:
        graph, inputs, plans = winograd_plans(case, block)
        check_plan(sanitized, graph, inputs, plans[0], threads=3)


@pytest.mark.parametrize(("channels", "is_winograd"), [(115, True), (116, False)])
def test_sums_that_25_bits_do_not_hold_are_no_integers_of_winograds(channels: int, is_winograd: bool) -> None:
    graph, _ = network(Convolution((channels, 16), (9, 9), pads=(1, 1, 1, 1)))  # has an output of weights of 127
    kernels = [step.kernel.name for step in lower(graph, dataclasses.replace(CPU, cpu_pairs=True)).steps]
    assert ("integer_winograd" in kernels) == is_winograd == (channels * 9 * 127 * 255 < 2**25)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "threads"), list(itertools.product(CASES, (1, 5))))
def test_convolution_on_other_numbers_of_threads(farmrt: Farmrt, name: str, threads: int) -> None:
    check(farmrt, CASES[name], 8, threads=threads)


@pytest.mark.slow
def test_no_access_is_outside_of_memory(tmp_path: Path) -> None:
    with Farmrt(build_farmrt(sanitize=True), tmp_path) as sanitized:
        for case, block in itertools.product(CASES.values(), BLOCKS):
            check(sanitized, case, block, threads=3)


@pytest.mark.parametrize("name", CASES)
def test_what_winograds_algorithm_serves_better_multiplies_floats(name: str) -> None:
    graph, _ = network(CASES[name])
    floats = lower(graph, CPU, Options(cpu=CpuOptions(8, quantized=False)))
    is_winograd = any(step.kernel.name == "blocked_winograd" for step in floats.steps)
    assert quantized_steps(lower(graph, CPU)) == 2 - is_winograd
    assert quantized_steps(floats) == quantized_steps(lower(graph, dataclasses.replace(CPU, cpu_quantized=False))) == 0


@pytest.mark.parametrize("name", CASES)
def test_direct_convolutions_of_bytes_serve_better_with_vnni(name: str) -> None:
    graph, _ = network(CASES[name])
    assert quantized_steps(lower(graph, dataclasses.replace(CPU, cpu_vnni=True))) == 2


def test_weights_are_looked_at_once_for_all_plans(monkeypatch: pytest.MonkeyPatch) -> None:
    graph, _ = network(CASES["3x3"])
    judge, asked = quantized_lowering._whole_scales, list[int]()
    monkeypatch.setattr(quantized_lowering, "_whole_scales", lambda *given: asked.append(id(given[0])) or judge(*given))
    for _ in range(2):
        lower(graph, dataclasses.replace(CPU, cpu_pairs=True))
    assert len(asked) == len(set(asked)) == 2


def test_weights_that_are_no_whole_steps_stay_in_floats() -> None:
    graph, _ = network(CASES["1x1"])
    weights = graph.nodes[1].inputs[1]
    graph.constants[weights] = graph.constants[weights] * 1.001 + 1e-4
    kernels = [step.kernel.name for step in lower(graph, CPU).steps]
    assert kernels.count("blocked_conv2d") == kernels.count("quantized_conv2d") == 1


@pytest.mark.parametrize(("size", "steps"), [(22, 2), (23, 1)])
def test_depthwise_sums_that_floats_do_not_hold_stay_in_floats(size: int, steps: int) -> None:
    graph, _ = network(Convolution((8, 8), (30, 30), (size, size), depthwise=True))
    assert quantized_steps(lower(graph, CPU, Options(cpu=CpuOptions(8, algorithms={})))) == steps


def test_cpus_that_multiply_floats_as_fast_keep_floats() -> None:
    assert gains_by_bytes(("avx2",))
    assert gains_by_bytes(("asimd", "asimddp"))
    assert gains_by_bytes(("avx2", "avx512f", "avx512_vnni"))
    assert not any(map(gains_by_bytes, ((), ("asimd",), ("avx2", "avx512f"))))


def test_which_cpus_have_vnni() -> None:
    assert cpu_fields(("avx2", "avx512f", "avx512_vnni"))["cpu_vnni"]
    assert cpu_fields(("avx2",))["cpu_pairs"]
    assert not any(cpu_fields(each)["cpu_pairs"] for each in ((), ("avx2", "avx512f"), ("asimddp",)))
    assert not any(cpu_fields(each)["cpu_vnni"] for each in ((), ("avx2",), ("avx2", "avx512f"), ("asimddp",)))
