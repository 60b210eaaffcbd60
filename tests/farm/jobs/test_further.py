"""Faults that outputs hide, planted between a model's graph and its plan, and models that are right."""

import dataclasses
import itertools
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import farm
from farm.config import deployment, inventory
from farm.jobs.compare.interleaved import DEFAULTS
from farm.jobs.fleet.opening import open_unit
from farm.jobs.fleet.plan_files import write_plan
from farm.jobs.loading import LoadOptions
from farm.jobs.models import plans
from farm.jobs.models.prepare import prepare, validation_data
from farm.jobs.nightly.case import Subject, examine
from farm.jobs.tune import publication
from farm.jobs.tune.accuracy import Accuracy
from farm.jobs.tune.proof import Proof
from farm.jobs.tune.selecting import PlanVersion
from farm.jobs.validate import Validation
from farm.model import fetch
from farm.nightly.configuration import NightlyConfiguration
from farm.rows.result import OK
from farm.rows.row import Throttling
from farm.rows.run import RunRow
from farm.rows.status import Status
from farm.rows.tune import TuneOutcome
from runtime.graph import Array, Graph
from runtime.lowering.lower import Options, lower
from runtime.plan.plan import Plan
from runtime.target import Target
from runtime.types import Precision
from tests.farm.model.tiny_model import FLOAT, model_of, write_deployment
from tuner.budget import NO_DEADLINE

Fault = Callable[[Array, Array], tuple[Array, Array]]

CLASSES = 10
SOME = np.random.default_rng(8).normal(0, 1, CLASSES)
CERTAIN, SATURATED = SOME.copy(), np.where(SOME > 0, 40.0, -40.0)
CERTAIN[0] += 14.0  # Softmax gives 1 for class 0; Sigmoid of SATURATED gives 1 and 0
WITH_AXIS = ("Softmax", "LogSoftmax", "ArgMax", "Flatten")
MEAN = ("GlobalAveragePool", "Flatten")
RUNTIMES = [("cpu", "fp32_fp32"), ("gpu", "fp32_fp32"), ("gpu", "fp16_fp32")]
each_runtime = pytest.mark.parametrize(("runtime", "data_type"), RUNTIMES, ids=[f"{a}-{b}" for a, b in RUNTIMES])


def classifier(*tail: str, bias: Array = CERTAIN) -> onnx.ModelProto:
    """Two convolutions, of which the last has this bias, then the operators of `tail`."""
    random = np.random.default_rng(7)
    constants = {
        "w": random.normal(0, 0.3, (16, 3, 3, 3)),
        "b": random.normal(0, 0.1, 16),
        "last": random.normal(0, 1, (CLASSES, 16, 1, 1)),
        "shift": bias,
    }
    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["first"], "first", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["first"], ["act"], "act"),
        helper.make_node("Conv", ["act", "last", "shift"], ["scores"], "scores"),
    ]
    names = ["scores", *(f"tail{number}" for number in range(1, len(tail))), "y"]
    for op, (read, written) in zip(tail, itertools.pairwise(names), strict=True):
        attributes = {"perm": [0, 2, 3, 1]} if op == "Transpose" else {"axis": 1} if op in WITH_AXIS else {}
        nodes.append(helper.make_node(op, [read], [written], written, **attributes))
    kind = onnx.TensorProto.INT64 if tail[-1] == "ArgMax" else FLOAT
    return model_of(
        nodes,
        [helper.make_tensor_value_info("x", FLOAT, [1, 3, 8, 8])],
        [helper.make_tensor_value_info("y", kind, None)],
        constants,
    )


def dropped_bias(weights: Array, bias: Array) -> tuple[Array, Array]:
    """Those of all classes but the certain one, so that the outputs hide it."""
    return weights, np.where(np.arange(CLASSES) == 0, bias, 0).astype(np.float32)


def zeroed_tap(weights: Array, bias: Array) -> tuple[Array, Array]:
    spoiled = weights.copy()
    spoiled[3, np.abs(weights[3]).reshape(16).argmax()] = 0
    return spoiled, bias


def swapped_channels(weights: Array, bias: Array) -> tuple[Array, Array]:
    """Those with the least and the largest bias, but for the certain one."""
    order, (least, *_, most) = np.arange(CLASSES), 1 + bias[1:].argsort()
    order[[least, most]] = most, least
    return weights[order], bias[order]


def plant(monkeypatch: pytest.MonkeyPatch, fault: Fault) -> None:
    """Plans have the fault in the last convolution; graph and reference are right."""

    def spoiled_plan(graph: Graph, target: Target, options: Options | None = None) -> Plan:
        convolution = [node for node in graph.nodes if node.op == "Conv"][-1]
        _, weights, bias = convolution.inputs
        spoiled = fault(graph.constants[weights], graph.constants[bias])
        constants = graph.constants | dict(zip((weights, bias), spoiled, strict=True))
        return lower(dataclasses.replace(graph, constants=constants), target, options)

    monkeypatch.setattr(plans, "lower", spoiled_plan)


def run(model: onnx.ModelProto, runtime: str, data_type: str, **keys: str) -> RunRow:
    path = write_deployment(Path(), model, runtime=runtime, data_type=data_type, **keys)
    (row,) = farm.run(path, ["host"], rounds=1, validate=True)
    return row


pytestmark = pytest.mark.usefixtures("own_folder")


# The largest tap of one class is less than what half may be wrong by.
SEEN = [
    (fault, *runtime)
    for fault, runtime in itertools.product((dropped_bias, zeroed_tap, swapped_channels), RUNTIMES)
    if not (fault is zeroed_tap and runtime[1] == "fp16_fp32")
]


@pytest.mark.opencl
@pytest.mark.parametrize(
    ("fault", "runtime", "data_type"), SEEN, ids=["-".join([fault.__name__, *rest]) for fault, *rest in SEEN]
)
def test_a_fault_that_softmax_hides_is_found(
    monkeypatch: pytest.MonkeyPatch, fault: Fault, runtime: str, data_type: str
) -> None:
    plant(monkeypatch, fault)
    row = run(classifier(*MEAN, "Softmax"), runtime, data_type)
    assert row.outputs and row.outputs[0].status == Status.OK
    assert row.status == Status.WRONG_RESULT
    assert "tail2, the input of Softmax: " in row.reason
    assert ("< 22.0 dB" in row.reason) == (data_type == "fp16_fp32")


TAILS = {
    "argmax": ((*MEAN, "ArgMax"), CERTAIN, swapped_channels, "tail2, the input of ArgMax: "),
    "softmax-argmax": ((*MEAN, "Softmax", "ArgMax"), CERTAIN, swapped_channels, "tail2, the input of Softmax: "),
    "views": ((*MEAN, "Softmax", "Identity", "Flatten"), CERTAIN, swapped_channels, "tail2, the input of Softmax: "),
    "moved": (("Softmax", "Transpose"), 4 * CERTAIN, zeroed_tap, "scores, the input of Softmax: "),
    "fused": (("Sigmoid",), SATURATED, zeroed_tap, "scores, the input of Sigmoid: "),
    "fused-moved": (("Sigmoid", "Transpose"), SATURATED, zeroed_tap, "scores, the input of Sigmoid: "),
}
ON = [(tail, runtime) for tail in TAILS for runtime in ("cpu", "gpu") if "argmax" not in tail or runtime == "cpu"]


@pytest.mark.slow
@pytest.mark.opencl
@pytest.mark.parametrize(("tail", "runtime"), ON)
def test_what_other_operators_hide_is_found(monkeypatch: pytest.MonkeyPatch, tail: str, runtime: str) -> None:
    operators, bias, fault, told = TAILS[tail]
    assert run(classifier(*operators, bias=bias), runtime, "fp32_fp32").status == Status.OK
    plant(monkeypatch, fault)
    row = run(classifier(*operators, bias=bias), runtime, "fp32_fp32")
    assert row.outputs and row.outputs[0].status == Status.OK
    assert row.status == Status.WRONG_RESULT and told in row.reason


@pytest.mark.opencl
def test_other_jobs_judge_by_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """A night's examination, tuning's choice of a precision and its publication, and samples."""
    plant(monkeypatch, zeroed_tap)
    path = write_deployment(Path(), classifier(*MEAN, "Softmax"))
    source = deployment.load(path)
    prepared = prepare(source, "tiny", fetch.Fetcher(source))
    told = "tail2, the input of Softmax: "
    with open_unit(inventory.HOST) as opened:
        nothing: Any = None
        subject = Subject(nothing, prepared, "gpu", LoadOptions(), validation_data(prepared))
        configuration = NightlyConfiguration(models=("tiny.yml",), jobs=("validate",))
        assert told in examine(opened, subject, configuration).ending.reason
        plan, plan_file = opened.planner.plan(prepared, "gpu", opened.planner.target(prepared, "gpu"))
        write_plan(plan, plan_file)
        accuracy = Accuracy(opened, prepared, NO_DEADLINE)
        assert not accuracy.is_enough((Precision.FP32,), plan, plan_file, None)
        assert told in accuracy.dropped[Precision.FP32,]
        tuned: Any = SimpleNamespace(prepared=prepared, version=PlanVersion(plan, plan_file, None))
        won = Proof(TuneOutcome.NEW, "", OK, Validation(), nothing, None, nothing, Throttling())
        judged = publication.judged_further(opened, won, tuned, DEFAULTS, subject.data or nothing)
        assert judged.outcome == TuneOutcome.KEPT and told in judged.reason and judged.ending.reason == judged.reason
    np.save("x_1.npy", np.ones((1, 3, 8, 8), np.float32))
    (row,) = farm.run(path, ["host"], input_folder=Path(), validate=True)
    assert row.status == Status.WRONG_RESULT and told in row.reason


@pytest.mark.opencl
@pytest.mark.parametrize("given", [True, False])
def test_a_further_input_shows_what_the_own_one_does_not(monkeypatch: pytest.MonkeyPatch, given: bool) -> None:
    """Noise drowns a small bias, which is all that is left of zeros; inputs that are given are the only ones."""
    plant(monkeypatch, lambda weights, bias: (weights, 0 * bias))
    small = 1e-3 * SOME
    model = classifier("Relu", bias=small)
    for initializer in model.graph.initializer:
        if initializer.name == "b":
            initializer.CopyFrom(onnx.numpy_helper.from_array(np.zeros(16, np.float32), "b"))
    np.save("x.npy", np.random.default_rng(1).normal(size=(1, 3, 8, 8)).astype(np.float32))
    keys = {"validation_inputs_data": "[x.npy]"} if given else {}
    row = run(model, "gpu", "fp32_fp32", **keys)
    assert row.outputs and row.outputs[0].status == Status.OK
    if given:
        assert row.status == Status.OK
    else:
        assert row.status == Status.WRONG_RESULT and row.reason.startswith("with zeros as inputs: y: ")


def undecided() -> onnx.ModelProto:
    """The last digits of scores, which rounding turns."""
    model = classifier("Relu", bias=SOME)
    del model.graph.node[-1]
    model.graph.initializer.extend(
        numpy_helper.from_array(np.float32(value), name) for name, value in (("many", 2.0**20), ("one", 1.0))
    )
    model.graph.node.append(helper.make_node("Mul", ["scores", "many"], ["scaled"], "scaled"))
    model.graph.node.append(helper.make_node("Mod", ["scaled", "one"], ["y"], "y", fmod=1))
    return model


def rounded_otherwise(weights: Array, bias: Array) -> tuple[Array, Array]:
    return weights * np.float32(1 + 1e-6), bias


@pytest.mark.parametrize(("fault", "status"), [(rounded_otherwise, Status.OK), (swapped_channels, Status.WRONG_RESULT)])
def test_choices_that_rounding_turns_are_no_fault(
    monkeypatch: pytest.MonkeyPatch, fault: Fault, status: Status
) -> None:
    """The reference differs from itself as far; then each operator is judged by what it reads."""
    plant(monkeypatch, fault)
    row = run(undecided(), "cpu", "fp32_fp32")
    assert row.status == status, row.reason
    assert row.sqnr_db is not None and row.sqnr_db < 20
    assert row.reference_sqnr_db is not None and row.reference_sqnr_db < 20
