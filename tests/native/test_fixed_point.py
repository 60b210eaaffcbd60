"""Operators on bytes that round by fixed point, against the oracle's integers: the same bytes."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from farm.emulation.played_gpu import played_environment
from runtime.convert import convert
from runtime.graph import Array, Graph
from runtime.kernels.codes import BYTES_FIXED
from runtime.lowering.lower import Options, lower
from runtime.lowering.options import CPU_WINOGRAD, CpuOptions
from runtime.oracle.evaluate import evaluate
from runtime.plan.encode import encode_plan
from runtime.plan.plan import Plan
from runtime.target import Target
from runtime.types import Dot
from tests.native.farmrt import Farmrt
from tests.runtime.fixed_point_models import SHAPE, X_STEP, drawn_weights, model

CPU = Target("host", "host", memory="cpu")
PHONE = Target("phone", "host", gpu_family="mali-valhall", allow_cpu=True)
RANDOM = np.random.default_rng(4)
ROWS = {"w": RANDOM.integers(-127, 128, (16, 96)).astype(np.int8), "ws": np.float32(0.004)}
WINDOW = {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [0, 0, 1, 1]}
STEP = np.float32(2**-8)  # of sums, in those of results: many lie in the middle, where TFLite rounds them upwards first
HALVES = {"ws": np.full(32, STEP), "cs": np.full(32, STEP * X_STEP), "ys": X_STEP}
COARSE = {"ws": np.full(16, 4, np.float32), "cs": np.full(16, 4 * X_STEP)}  # sums shifted to the left
CASES: dict[str, tuple[str, dict[str, Array], dict[str, Any]]] = {
    "conv": ("Conv", drawn_weights(70, 16, 3, 3), {"strides": [2, 2], "pads": [1, 1, 1, 1]}),
    "winograd's": ("Conv", drawn_weights(64, 16, 3, 3), {"pads": [1, 1, 1, 1]}),
    "large window": ("Conv", drawn_weights(20, 16, 7, 7), {"pads": [3, 3, 3, 3]}),
    "groups": ("Conv", drawn_weights(32, 8, 1, 1), {"group": 2}),
    "depthwise": ("Conv", drawn_weights(16, 1, 3, 3), {"group": 16, "pads": [1, 1, 1, 1]}),
    "depthwise 5x5": ("Conv", drawn_weights(16, 1, 5, 5), {"group": 16, "strides": [2, 2], "pads": [2, 2, 2, 2]}),
    "halves": ("Conv", drawn_weights(32, 16, 3, 3) | HALVES, {"pads": [1, 1, 1, 1]}),
    "halves, rectified": ("Conv", drawn_weights(32, 16, 3, 3) | HALVES | {"yz": np.int8(-128)}, {}),
    "depthwise, rectified": ("Conv", drawn_weights(16, 1, 3, 3) | {"yz": np.int8(-128)}, {"group": 16}),
    "few steps": ("Conv", drawn_weights(16, 16, 1, 1) | COARSE, {}),
    "rows": ("MatMul", ROWS, {}),
    "add": ("Add", {}, {}),
    "halves of sums": ("Add", {"bs": X_STEP, "ys": 2 * X_STEP}, {}),
    "fine sums": ("Add", {"ys": X_STEP / 8}, {}),
    "sub": ("Sub", {}, {}),
    "mul": ("Mul", {}, {}),
    "mean": ("ReduceMean", {}, {"axes": [2, 3]}),
    "leaky": ("LeakyRelu", {}, {"alpha": 0.1}),
    "average": ("AveragePool", {}, WINDOW),
}
OPERATORS = {"quantized_conv2d", "quantized_depthwise", "quantized_binary", "quantized_pool", "quantized_lookup"}


@pytest.mark.parametrize("isa", ["", "generic", pytest.param("avx2", marks=pytest.mark.slow)])
@pytest.mark.parametrize("block", [8, 16])
@pytest.mark.parametrize("name", CASES)
def test_the_bytes_are_those_of_the_oracle(farmrt: Farmrt, name: str, block: int, isa: str) -> None:
    check(farmrt, name, block, isa)


@pytest.mark.parametrize("isa", ["", "generic", pytest.param("avx2", marks=pytest.mark.slow)])
@pytest.mark.parametrize("block", [8, 16])
@pytest.mark.parametrize("name", ["winograd's", "halves", "halves, rectified"])
def test_winograds_algorithm_in_integers_has_them_too(farmrt: Farmrt, name: str, block: int, isa: str) -> None:
    graph = graph_of(name)
    target, chosen = dataclasses.replace(CPU, cpu_pairs=True), {node.output: CPU_WINOGRAD for node in graph.nodes}
    plan = lower(graph, target, Options(cpu=CpuOptions(block, algorithms=chosen)))
    assert "integer_winograd" in {step.kernel.name for step in plan.steps}
    compare(farmrt, graph, plan, threads=3, isa=isa or None)


@pytest.fixture(scope="module")
def played(farmrt_program: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Farmrt]:
    """A GPU with Arm's dot products."""
    variables = played_environment("mali-g78")
    with Farmrt(farmrt_program, tmp_path_factory.mktemp("played"), variables["FARM_OPENCL"], variables) as served:
        yield served


@pytest.mark.opencl
@pytest.mark.parametrize(("name", "dot"), [*((name, Dot.ARM) for name in CASES), ("conv", Dot.NONE)])
def test_a_gpu_has_the_same_bytes(played: Farmrt, name: str, dot: Dot) -> None:
    graph = graph_of(name)
    plan = lower(graph, dataclasses.replace(PHONE, dot=dot))
    assert any(step.defines.get("BYTES", 0) & BYTES_FIXED or step.kernel.name == "lookup" for step in plan.steps)
    compare(played, graph, plan)


def check(farmrt: Farmrt, name: str, block: int, isa: str) -> None:
    graph = graph_of(name)
    plan = lower(graph, CPU, Options(cpu=CpuOptions(block, algorithms=None)))
    assert OPERATORS & {step.kernel.name for step in plan.steps}
    compare(farmrt, graph, plan, threads=2, isa=isa or None)


def graph_of(name: str) -> Graph:
    op, weights, attributes = CASES[name]
    shape = (1, 64, 16) if name == "rows" else SHAPE
    return convert(model(op, weights, True, shape, keeps_steps=name == "average", **attributes))[0]


def compare(farmrt: Farmrt, graph: Graph, plan: Plan, **how: Any) -> None:
    answer = farmrt.load_files(encode_plan(plan), plan.data, **how)
    inputs = {name: RANDOM.integers(-128, 128, graph.shape(name)).astype(np.int8) for name in graph.inputs}
    farmrt.run_loaded(answer, inputs)
    path = farmrt.folder / "y"
    farmrt.done("output", name="y", file=path)
    found = np.frombuffer(path.read_bytes(), np.int8).reshape(graph.shape("y"))
    np.testing.assert_array_equal(found, evaluate(graph, inputs)["y"])
