"""Loop and Scan whose turns are counted at conversion, against ONNX Runtime; all others are refused, soon."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from runtime.convert import convert
from runtime.errors import ModelError, UnsupportedError
from runtime.oracle.evaluate import evaluate
from tests.runtime.onnx_models import onnx_model, random_array, run_onnxruntime
from tests.time_limit import within

X = {"x": (2, 3)}


def info(name: str, kind: int = TensorProto.FLOAT, shape: tuple[int, ...] | None = None) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, shape)


def loop_body(*nodes: onnx.NodeProto, outputs: tuple[str, ...]) -> onnx.GraphProto:
    """Reads the turn, whether it goes on, and one value; `bound` and `one` are constants of its own."""
    inputs = [info("turn", TensorProto.INT64, ()), info("on", TensorProto.BOOL, ()), info("value")]
    constants = [
        onnx.numpy_helper.from_array(np.asarray(3, np.int64), "bound"),
        onnx.numpy_helper.from_array(np.asarray(1, np.float32), "one"),
    ]
    kinds = (TensorProto.BOOL, *(TensorProto.FLOAT,) * 9)
    return helper.make_graph(
        nodes, "body", inputs, [info(name, kind) for name, kind in zip(outputs, kinds, strict=False)], constants
    )


STEP = (
    helper.make_node("Add", ["value", "x"], ["wide"]),
    helper.make_node("Mul", ["wide", "factor"], ["next"]),
    helper.make_node("ReduceSum", ["next"], ["sum"], keepdims=0),
)


def loop(body: onnx.GraphProto, count: int | None, condition: str = "", opset: int = 17) -> onnx.ModelProto:
    """A loop over x, whose body reads the outer `factor` too."""
    outputs = ["last", "sums"][: len(body.output) - 1]
    inputs = ["count" if count is not None else "", condition, "x"]
    node = helper.make_node("Loop", inputs, outputs, "the_loop", body=body)
    constants = {"factor": 0.5, "true": np.asarray(True)} | ({} if count is None else {"count": count})
    return onnx_model([node], X, outputs, constants, opset)


def assert_right(model: onnx.ModelProto) -> None:
    inputs = {name: random_array(tuple(d.dim_value for d in value.type.tensor_type.shape.dim)) for name, value in {
        value.name: value for value in model.graph.input
    }.items()}  # fmt: skip
    graph, _ = convert(model)
    values = evaluate(graph, inputs)
    for name, expected in zip(graph.outputs, run_onnxruntime(model, inputs), strict=True):
        assert values[name].shape == expected.shape
        np.testing.assert_allclose(values[name], expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("opset", [11, 17])
def test_a_loop_of_so_many_turns(opset: int) -> None:
    nodes = [helper.make_node("Identity", ["on"], ["still"]), *STEP]
    assert_right(loop(loop_body(*nodes, outputs=("still", "next", "sum")), 5, opset=opset))


@pytest.mark.parametrize("count", [None, 2, 9])
def test_a_loop_that_counts_by_itself(count: int | None) -> None:
    nodes = [helper.make_node("Less", ["turn", "bound"], ["still"]), *STEP]
    assert_right(loop(loop_body(*nodes, outputs=("still", "next", "sum")), count, "true"))


def test_no_turn_at_all() -> None:
    nodes = [helper.make_node("Identity", ["on"], ["still"]), *STEP]
    assert_right(loop(loop_body(*nodes, outputs=("still", "next")), 0))
    with pytest.raises(UnsupportedError, match="no turns, so that 'sums' has no elements"):
        convert(loop(loop_body(*nodes, outputs=("still", "next", "sum")), 0))


def test_a_loop_whose_end_a_run_decides() -> None:
    nodes = [*STEP, helper.make_node("Less", ["sum", "one"], ["still"])]
    with pytest.raises(UnsupportedError, match=r"node 'the_loop' \(Loop\): its condition .* is computed at run time"):
        convert(loop(loop_body(*nodes, outputs=("still", "next")), 5))


def test_an_operator_in_a_loop_that_is_not_supported() -> None:
    nodes = [helper.make_node("Identity", ["on"], ["still"]), helper.make_node("Det", ["value"], ["next"])]
    with pytest.raises(UnsupportedError, match=r"operator ai\.onnx\.Det is not supported"):
        convert(loop(loop_body(*nodes, outputs=("still", "next")), 2))


@pytest.mark.slow
@pytest.mark.parametrize("count", [None, 1 << 40])
def test_a_loop_without_end_is_refused(count: int | None) -> None:
    nodes = [helper.make_node("Identity", ["on"], ["still"]), *STEP]
    with within(60), pytest.raises(UnsupportedError, match="more than 1024 turns"):
        convert(loop(loop_body(*nodes, outputs=("still", "next")), count))


@pytest.mark.slow
def test_loops_in_loops_in_loops_are_refused() -> None:
    body = loop_body(*STEP, outputs=("on", "next"))
    for _ in range(3):
        inner = helper.make_node("Loop", ["thousand", "on", "value"], ["next"], "inner", body=body)
        body = loop_body(inner, outputs=("on", "next"))
    model = loop(body, 1000)
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.asarray(1000), "thousand"))
    with within(60), pytest.raises(UnsupportedError, match="its turns need more than 20000 nodes"):
        convert(model)


def test_a_body_with_other_inputs() -> None:
    body = loop_body(*STEP, outputs=("on", "next"))
    del body.input[2:]
    with pytest.raises(ModelError, match="its body has 2 inputs, not 3"):
        convert(loop(body, 2))


@pytest.mark.parametrize(("source", "result"), [(0, 0), (1, 0), (0, 1), (1, 1)])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("opset", [11, 17])
def test_scans(source: int, result: int, axis: int, opset: int) -> None:
    body = helper.make_graph(
        [
            helper.make_node("Add", ["sum_in", "part"], ["sum_out"]),
            helper.make_node("Mul", ["sum_out", "part"], ["scanned"]),
        ],
        "body",
        [info("sum_in"), info("part")],
        [info("sum_out"), info("scanned")],
    )
    attributes: dict[str, Any] = {"scan_input_axes": [axis], "scan_output_axes": [1], "num_scan_inputs": 1}
    attributes |= {"scan_input_directions": [source], "scan_output_directions": [result]}
    node = helper.make_node("Scan", ["start", "x"], ["last", "all"], "scan", body=body, **attributes)
    assert_right(onnx_model([node], {"x": (4, 4), "start": (4,)}, ["last", "all"], None, opset))
