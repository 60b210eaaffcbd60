"""Quantised models: right ones are told as right whatever they make of single steps, and faults are named."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from farm.config import deployment
from farm.jobs.models.prepare import prepare
from farm.jobs.validate import thresholds_of
from farm.model.fetch import Fetcher
from farm.model.metrics import default_thresholds
from farm.model.stepwise import departures
from farm.rows.status import Status
from runtime.convert import convert
from runtime.graph import Array
from runtime.oracle.evaluate import evaluate
from runtime.types import Precision
from tests.farm.jobs.test_further import Fault, dropped_bias, plant, run, swapped_channels
from tests.farm.model.tiny_model import FLOAT, model_of, write_deployment

RUNTIMES = [("cpu", "fp32_fp32"), ("gpu", "fp32_fp32"), ("gpu", "fp16_fp32")]
LAYERS = 12
SHAPE = "1,3,32,32"
STEP = 2 / 127
CLASSES = 10


pytestmark = pytest.mark.usefixtures("own_folder")


def rounded(x: str, y: str, is_dynamic: bool) -> list[onnx.NodeProto]:
    whole, name = f"{y}/q", f"{y}/q"
    scales = [f"{y}/scale", f"{y}/zero"] if is_dynamic else ["scale", "zero"]
    dynamic = helper.make_node("DynamicQuantizeLinear", [x], [whole, *scales], name)
    static = helper.make_node("QuantizeLinear", [x, *scales], [whole], name)
    return [dynamic if is_dynamic else static, helper.make_node("DequantizeLinear", [whole, *scales], [y], y)]


def deep_model(is_dynamic: bool = False) -> onnx.ModelProto:
    """Convolutions that make a step of one the steps of many: end to end no two runs of it agree."""
    random, constants = np.random.default_rng(7), {}
    spread = 0.08 if is_dynamic else 0.2  # where no range clips them, values must not grow beyond all biases
    nodes = rounded("x", "r0", is_dynamic)
    for layer in range(LAYERS):
        last = layer == LAYERS - 1
        constants[f"w{layer}"] = random.normal(0, spread, (CLASSES if last else 16, 3 if layer == 0 else 16, 3, 3))
        constants[f"b{layer}"] = random.normal(0, 0.3, CLASSES if last else 16)
        reads = [f"r{layer}", f"w{layer}", f"b{layer}"]
        nodes.append(helper.make_node("Conv", reads, [f"c{layer}"], f"c{layer}", pads=[1, 1, 1, 1]))
        nodes += rounded(f"c{layer}", f"r{layer + 1}", is_dynamic)
    nodes.append(helper.make_node("Softmax", [f"r{LAYERS}"], ["y"], "y", axis=1))
    made = model_of(
        nodes,
        [helper.make_tensor_value_info("x", FLOAT, [1, 3, 32, 32])],
        [helper.make_tensor_value_info("y", FLOAT, None)],
        constants,
    )
    made.graph.initializer.extend(
        [numpy_helper.from_array(np.float32(STEP), "scale"), numpy_helper.from_array(np.int8(3), "zero")]
    )
    return made


@pytest.mark.slow
@pytest.mark.opencl
@pytest.mark.parametrize(("runtime", "data_type"), RUNTIMES)
def test_a_model_that_turns_a_step_into_many_is_right(runtime: str, data_type: str) -> None:
    row = run(deep_model(), runtime, data_type, shape=SHAPE)
    assert row.status == Status.OK and row.reference_sqnr_db is not None, row.reason


@pytest.mark.slow
@pytest.mark.parametrize(("fault", "status"), [(None, Status.OK), (dropped_bias, Status.WRONG_RESULT)])
def test_steps_may_be_found_while_the_model_runs(
    monkeypatch: pytest.MonkeyPatch, fault: Fault | None, status: Status
) -> None:
    if fault:
        plant(monkeypatch, fault)
    row = run(deep_model(is_dynamic=True), "cpu", "fp32_fp32", shape=SHAPE)
    assert row.status == status, row.reason


@pytest.mark.parametrize("is_dynamic", [False, True])
def test_the_reference_itself_moves_where_steps_fall_the_other_way(is_dynamic: bool) -> None:
    found = deployment.load(write_deployment(Path(), deep_model(is_dynamic), shape=SHAPE))
    prepared = prepare(found, "tiny", Fetcher(found))
    moved = prepared.moved_by_rounding(Precision.FP32)
    assert prepared.is_quantized and moved is not None and moved.sqnr_db < 60
    assert thresholds_of(prepared, "cpu", Precision.FP32).sqnr_db < moved.sqnr_db


@pytest.mark.slow
@pytest.mark.opencl
@pytest.mark.parametrize("fault", [dropped_bias, swapped_channels])
@pytest.mark.parametrize(("runtime", "data_type"), RUNTIMES[:2])
def test_a_fault_is_found(monkeypatch: pytest.MonkeyPatch, fault: Fault, runtime: str, data_type: str) -> None:
    plant(monkeypatch, fault)
    assert run(deep_model(), runtime, data_type, shape=SHAPE).status == Status.WRONG_RESULT


def found(values: dict[str, Array], precision: Precision = Precision.FP32) -> list[str]:
    graph, _ = convert(deep_model())
    return [node.name for node, _ in departures(graph, values, precision, default_thresholds("cpu", Precision.FP32))]


@pytest.fixture(scope="module")
def values() -> dict[str, Array]:
    graph, _ = convert(deep_model())
    x = np.random.default_rng(2).uniform(-1, 1, graph.shape("x")).astype(np.float32)
    values = evaluate(graph, {"x": x})
    return {name: values[name] for name in ("x", *graph.layers)}


def test_what_an_operator_makes_of_wrong_inputs_is_right(values: dict[str, Array]) -> None:
    """The first layer reads another input than the others were computed of."""
    assert found(values) == []
    assert found({**values, "x": values["x"] + np.float32(0.1)}) == ["r0"]


@pytest.mark.parametrize(
    ("share", "steps", "departs"), [(0.0005, 1, False), (0.0005, 2, True), (0.02, 1, True), (0.02, np.nan, True)]
)
def test_few_elements_may_be_one_step_away(values: dict[str, Array], share: float, steps: float, departs: bool) -> None:
    spoiled = values["r5"].copy()
    chosen = np.random.default_rng(3).random(spoiled.shape) < share
    spoiled[chosen] += np.float32(steps * STEP)
    before = {name: values[name] for name in ("x", *(f"r{layer}" for layer in range(5)))}
    assert found({**before, "r5": spoiled})[:1] == (["c4"] if departs else [])
