"""Faults that outputs hide, planted between a model's graph and its plan, and models that are right."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

import farm
from farm.jobs.models import plans
from farm.rows.run import RunRow
from farm.rows.status import Status
from runtime.graph import Array, Graph
from runtime.lowering.lower import Options, lower
from runtime.plan.plan import Plan
from runtime.target import Target
from tests.farm.model.tiny_model import FLOAT, model_of, write_deployment

Constants = dict[str, Array]
Fault = Callable[[Array, Array], tuple[Array, Array]]

CLASSES, SURE = 10, 14.0
RUNTIMES = [("cpu", "fp32_fp32"), ("gpu", "fp32_fp32"), ("gpu", "fp16_fp32")]
each_runtime = pytest.mark.parametrize(("runtime", "data_type"), RUNTIMES, ids=[f"{a}-{b}" for a, b in RUNTIMES])


def classifier(*tail: str, sure: float = SURE) -> onnx.ModelProto:
    """Two convolutions, a mean, then `tail`, of which Softmax is as good as certain of class 0 (by `sure`)."""
    random = np.random.default_rng(7)
    bias = random.normal(0, 1, CLASSES)
    bias[0] += sure
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
        helper.make_node("GlobalAveragePool", ["scores"], ["mean"], "mean"),
    ]
    names = ["mean", *(f"tail{number}" for number in range(1, len(tail))), "y"]
    for op, read, written in zip(tail, names, names[1:], strict=True):
        axis = {"axis": 1} if op in ("Softmax", "LogSoftmax", "ArgMax", "Flatten") else {}
        nodes.append(helper.make_node(op, [read], [written], written, **axis))
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
    order = [0, 2, 1, *range(3, CLASSES)]
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


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(own_folder: Path) -> None:
    pass


@pytest.mark.opencl
@each_runtime
@pytest.mark.parametrize("fault", [dropped_bias, zeroed_tap, swapped_channels])
def test_a_fault_that_softmax_hides_is_found(
    monkeypatch: pytest.MonkeyPatch, fault: Fault, runtime: str, data_type: str
) -> None:
    plant(monkeypatch, fault)
    row = run(classifier("Flatten", "Softmax"), runtime, data_type)
    print(fault.__name__, runtime, data_type, row.status, row.reason, row.sqnr_db)
    assert row.outputs and row.outputs[0].status == Status.OK
    assert row.status == Status.WRONG_RESULT
    assert row.reason.startswith("tail1, the input of Softmax: ")
