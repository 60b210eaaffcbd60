"""Products in bytes of what is rounded to its own range as the model runs, as quantize_dynamic writes them.

The results are those of ONNX Runtime.
"""

import dataclasses
import itertools
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto

from runtime.convert import convert
from runtime.families.quantization.quantized_lowering import fuse_roundings_to_ranges
from runtime.graph import Graph
from runtime.lowering.builder import ROUND_TO_RANGE
from runtime.lowering.lower import Options, lower
from runtime.lowering.options import CpuOptions
from runtime.native.build import build_farmrt
from runtime.plan.encode import encode_plan
from runtime.plan.plan import Plan
from runtime.target import Target
from tests.native.farmrt import Farmrt
from tests.native.test_quantized_convolution import BLOCKS, ISAS, quantized_steps
from tests.runtime.onnx_models import run_onnxruntime
from tests.runtime.test_quantization import quantized

CPU = Target("host", "host", memory="cpu")
RANDOM = np.random.default_rng(5)


@dataclasses.dataclass(frozen=True)
class Case:
    """An integer product of an input of this shape, rounded to its range, and weights of this one.

    Attributes:
        zero: of the weights; None: they are signed and have none.
        channels: each output channel has a scale of its own.
        windows: attributes of ConvInteger; None: MatMulInteger.
        adds: the input, as it is, is added to the result.
    """

    x: tuple[int, ...]
    w: tuple[int, ...]
    zero: int | None = None
    channels: bool = False
    windows: dict[str, Any] | None = None
    activation: str = ""
    adds: bool = False

    @property
    def is_convolution(self) -> bool:
        """Whether images are multiplied."""
        return self.windows is not None

    @property
    def outputs(self) -> int:
        """Output channels."""
        return self.w[0] if self.is_convolution else self.w[-1]


SAME = {"pads": [1, 1, 1, 1]}
CASES = {
    "rows": Case((2, 19, 64), (64, 96), channels=True),
    "one row": Case((1, 64), (64, 48)),
    "seven rows": Case((7, 72), (72, 32), adds=False, activation="Tanh"),
    "rows that fill no quad": Case((9, 70), (70, 32), zero=119),
    "results that fill no block": Case((5, 3, 61), (61, 27), zero=131, activation="Relu"),
    "many products": Case((33, 1030), (1030, 16), zero=128),
    "with an addend": Case((3, 5, 64), (64, 64), channels=True, adds=True, activation="Relu"),
    "1x1": Case((2, 48, 9, 7), (40, 48, 1, 1), zero=124, windows={}, activation="Relu"),
    "1x1 of few channels": Case((1, 24, 6, 5), (144, 24, 1, 1), zero=140, windows={}),
    "3x3 of an image": Case((1, 3, 33, 31), (32, 3, 3, 3), zero=128, windows={"strides": [2, 2], **SAME}),
    "3x3": Case((1, 40, 13, 12), (70, 40, 3, 3), zero=131, windows=SAME, adds=False),
    "groups": Case((1, 64, 8, 9), (64, 8, 3, 3), zero=121, windows={"group": 8, **SAME}, channels=True),
    "depthwise": Case((2, 24, 11, 10), (24, 1, 3, 3), zero=117, windows={"group": 24, **SAME}),
    "depthwise without a zero point": Case((1, 32, 9, 15), (32, 1, 3, 3), zero=128, windows={"group": 32, **SAME}),
    "depthwise 5x5": Case(
        (1, 40, 13, 14), (40, 1, 5, 5), zero=128, windows={"group": 40, "strides": [2, 2], "pads": [2, 2, 2, 2]}
    ),
    "convolution with an addend": Case((1, 32, 7, 9), (32, 32, 1, 1), zero=126, windows={}, adds=True),
}
INPUTS = {
    "zeros": lambda shape: np.zeros(shape, np.float32),
    "all alike": lambda shape: np.full(shape, 3.7, np.float32),
    "all alike and negative": lambda shape: np.full(shape, -0.3, np.float32),
    "positive": lambda shape: RANDOM.uniform(2, 3, shape).astype(np.float32),
    "negative": lambda shape: RANDOM.uniform(-3, -2, shape).astype(np.float32),
    "large": lambda shape: (RANDOM.uniform(-1, 1, shape) * 1e30).astype(np.float32),
    "halves of steps": lambda shape: (RANDOM.integers(-255, 256, shape) / 2).astype(np.float32),
}


def model_of(case: Case) -> onnx.ModelProto:
    """As quantize_dynamic writes it, with a bias."""
    kind, least = (np.int8, -127) if case.zero is None else (np.uint8, 0)
    wide = (-1, 1, 1) if case.is_convolution else (-1,)
    w = RANDOM.integers(least, least + 255, case.w).astype(kind)
    w.reshape(-1)[:2] = least, least + 254
    scales = RANDOM.uniform(0.005, 0.02, case.outputs if case.channels else ()).astype(np.float32)
    bias = RANDOM.normal(0, 1, case.outputs).astype(np.float32).reshape(wide)
    constants = {"w": w, "ws": scales.reshape(wide) if case.channels else scales, "bias": bias}
    constants["wz"] = np.array(0 if case.zero is None else case.zero, kind)
    op = "ConvInteger" if case.is_convolution else "MatMulInteger"
    nodes: list[tuple[Any, ...]] = [("DynamicQuantizeLinear", "x", "q s z", {})]
    nodes += [(op, "q w z wz", "p", case.windows or {}), ("Cast", "p", "f", {"to": TensorProto.FLOAT})]
    if case.is_convolution and case.channels:  # a scale of each channel, as a folded normalisation leaves it
        constants |= {"ws": scales.mean(), "factors": (scales / scales.mean()).reshape(wide)}
    nodes += [("Mul", "s ws", "both", {}), ("Mul", "f both", "scaled", {})]
    last = "scaled"
    behind = [("Mul", "factors")] if "factors" in constants else []
    behind += [("Add", "bias"), *([("Add", "x")] if case.adds else [])]
    for index, (each, operand) in enumerate(behind):
        nodes.append((each, f"{last} {operand}", f"t{index}", {}))
        last = f"t{index}"
    nodes.append((case.activation or "Identity", last, "y", {}))
    return quantized(nodes, constants, case.x)


def plan_of(graph: Graph, block: int) -> Plan:
    plan = lower(graph, CPU, Options(cpu=CpuOptions(block, algorithms={})))
    assert quantized_steps(plan) == 1, [step.kernel.name for step in plan.steps]
    assert sum(step.kernel.name == "quantized_reorder" for step in plan.steps) == 1
    return plan


def check(
    farmrt: Farmrt, name: str, block: int, isa: str = "", threads: int = 2, inputs: str = "", case: Case | None = None
) -> None:
    case = case or CASES[name]
    model = model_of(case)
    graph = convert(model)[0]
    plan = plan_of(graph, block)
    x = INPUTS[inputs](case.x) if inputs else RANDOM.normal(0.3, 1, case.x).astype(np.float32)
    answer = farmrt.load_files(encode_plan(plan), plan.data, threads=threads, isa=isa or None)
    farmrt.run_loaded(answer, {"x": x}, rounds=2)
    expected = run_onnxruntime(model, {"x": x})[0]
    found = farmrt.output("y").reshape(expected.shape)
    np.testing.assert_allclose(found, expected, rtol=2e-6, atol=2e-6 * np.abs(expected).max())


@pytest.mark.parametrize("isa", ["", *(pytest.param(isa, marks=pytest.mark.slow) for isa in ISAS)])
@pytest.mark.parametrize(("name", "block"), list(itertools.product(CASES, BLOCKS)))
def test_results_are_those_of_onnxruntime(farmrt: Farmrt, name: str, block: int, isa: str) -> None:
    check(farmrt, name, block, isa)


@pytest.mark.parametrize("inputs", INPUTS)
@pytest.mark.parametrize("name", ["rows that fill no quad", "3x3", "1x1 of few channels", "depthwise"])
def test_any_range(farmrt: Farmrt, name: str, inputs: str) -> None:
    check(farmrt, name, 16, inputs=inputs)


def read_in_floats() -> onnx.ModelProto:
    """What is rounded is read in floats alone."""
    nodes: list[tuple[Any, ...]] = [("DynamicQuantizeLinear", "x", "q s z", {}), ("DequantizeLinear", "q s z", "d", {})]
    return quantized([*nodes, ("Add", "d x", "y", {})], {}, (2, 24, 5, 7))


def compare(farmrt: Farmrt, model: onnx.ModelProto, plan: Plan) -> None:
    shape = tuple(dim.dim_value for dim in model.graph.input[0].type.tensor_type.shape.dim)
    x = RANDOM.normal(0.3, 1, shape).astype(np.float32)
    farmrt.run_loaded(farmrt.load_files(encode_plan(plan), plan.data, threads=2), {"x": x})
    expected = run_onnxruntime(model, {"x": x})[0]
    found = farmrt.output("y").reshape(expected.shape)
    np.testing.assert_allclose(found, expected, rtol=5e-6, atol=2e-6 * np.abs(expected).max())


@pytest.mark.parametrize("block", BLOCKS)
def test_floats_are_had_of_the_bytes_where_they_are_read(farmrt: Farmrt, block: int) -> None:
    model = read_in_floats()
    plan = lower(convert(model)[0], CPU, Options(cpu=CpuOptions(block)))
    assert [step.kernel.name for step in plan.steps[:2]] == ["quantized_reorder"] * 2
    compare(farmrt, model, plan)


def test_what_is_to_be_had_stays_and_what_is_chosen_so_is_rounded_in_floats(farmrt: Farmrt) -> None:
    model = read_in_floats()
    graph = convert(model)[0]
    found = fuse_roundings_to_ranges(graph, (), 16)
    (rounding,) = (node for node in found.nodes if node.op == ROUND_TO_RANGE)
    gone = {node.output for node in graph.nodes} - {node.output for node in found.nodes}
    assert len(gone) > 10 and {node.name for node in graph.nodes if node.output in gone} <= {*rounding.attrs["parts"]}
    for tensor in gone:
        assert tensor in {output.name for output in lower(graph, CPU, Options(keep=(tensor,))).outputs}
    options = Options(cpu=CpuOptions(16, in_floats=frozenset(rounding.outputs)))
    plan = lower(graph, CPU, options)
    assert not any(step.kernel.name.startswith("quantized") for step in plan.steps)
    compare(farmrt, model, plan)


def gated_model() -> onnx.ModelProto:
    """Two products of the same rows, of which one opens the other."""
    nodes: list[tuple[Any, ...]] = [("DynamicQuantizeLinear", "x", "q s z", {}), ("Mul", "s ws", "both", {})]
    for name in "ab":
        nodes += [("MatMulInteger", f"q w{name} z", f"p{name}", {})]
        nodes += [("Cast", f"p{name}", f"f{name}", {"to": TensorProto.FLOAT}), ("Mul", f"f{name} both", name, {})]
    nodes += [("Sigmoid", "a", "o", {}), ("Mul", "a o", "g", {}), ("Mul", "g b", "y", {})]
    weights = {f"w{name}": RANDOM.integers(-127, 128, (64, 48)).astype(np.int8) for name in "ab"}
    return quantized(nodes, {**weights, "ws": np.float32(0.01)}, (3, 5, 64))


def test_a_gate_is_not_taken_for_an_addend(farmrt: Farmrt) -> None:
    model = gated_model()
    graph = convert(model)[0]
    assert any(node.op == "FullyConnected" and any(node.inputs[4:]) for node in graph.nodes)
    compare(farmrt, model, lower(graph, CPU))


@pytest.mark.slow
@pytest.mark.parametrize(("name", "threads"), list(itertools.product(CASES, (1, 5))))
def test_other_numbers_of_threads(farmrt: Farmrt, name: str, threads: int) -> None:
    check(farmrt, name, 8, threads=threads)


@pytest.mark.slow
def test_no_access_is_outside_of_memory(tmp_path: Path) -> None:
    with Farmrt(build_farmrt(sanitize=True), tmp_path) as sanitized:
        for name, block in itertools.product(CASES, BLOCKS):
            check(sanitized, name, block, threads=3)
