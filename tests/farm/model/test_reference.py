"""The reference: ONNX Runtime in a process of its own, and exact sums of integers in its place."""

import json
import time
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from farm import cli
from farm.model.oracle import Oracle
from farm.model.reference_process import ReferenceProcess
from farm.quantization.layers import float_model
from runtime.errors import NoReferenceError
from tests.runtime.onnx_models import one_op, onnx_model, random_array

pytestmark = pytest.mark.slow

X = {"x": random_array((1, 6, 4))}
RELU = one_op("Relu", {"x": (1, 6, 4)})
DEADLY = onnx_model([helper.make_node("Split", ["x"], ["a", "", "y"], "split", axis=1)], {"x": (1, 6, 4)}, ["y"])


def test_a_model_that_kills_its_process_is_told_in_one_line_and_the_next_one_runs() -> None:
    process = ReferenceProcess()
    with pytest.raises(NoReferenceError, match="ended with SIGSEGV: the model makes it crash, or needs more than"):
        process.run(DEADLY.SerializeToString(), X)
    np.testing.assert_array_equal(process.run(RELU.SerializeToString(), X)["y"], np.maximum(X["x"], 0))


def test_a_model_that_needs_more_memory_than_there_may_be_is_told() -> None:
    nodes = [
        helper.make_node("ConstantOfShape", ["shape"], ["wide"]),
        helper.make_node("Add", ["wide", "x"], ["sum"]),
        helper.make_node("ReduceSum", ["sum"], ["y"]),
    ]
    model = onnx_model(nodes, {"x": (1,)}, ["y"], {"shape": [1 << 30]})
    with pytest.raises(NoReferenceError, match=r"ONNX Runtime, the reference, (refuses|ended)"):
        ReferenceProcess(memory_bytes=3 << 30).run(model.SerializeToString(), {"x": np.ones(1, np.float32)})


def saved_by_onnxruntime() -> onnx.ModelProto:
    """A product and a sum, which ONNX Runtime joins, and a shape under the name that it gives one then."""
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["product"]),
        helper.make_node("Add", ["product", "bias"], ["sum"]),
        helper.make_node("Reshape", ["sum", "gemm_input_shape"], ["y"]),
    ]
    constants = {"w": np.ones((4, 3), np.float32), "bias": np.zeros(3, np.float32), "gemm_input_shape": [1, 18]}
    return onnx_model(nodes, {"x": (1, 6, 4)}, ["y"], constants)


def test_a_model_that_was_saved_after_a_fusion_runs() -> None:
    found = ReferenceProcess().run(saved_by_onnxruntime().SerializeToString(), X)["y"]
    np.testing.assert_allclose(found, np.repeat(X["x"].sum(2), 3, axis=1).reshape(1, 18), rtol=1e-5)


def test_a_float_model_leaves_names_to_the_next_fusion() -> None:
    once = float_model(saved_by_onnxruntime(), ReferenceProcess())
    assert not [each.name for each in once.graph.initializer if each.name.startswith("gemm_")]


def test_a_model_that_takes_too_long_is_stopped() -> None:
    body = helper.make_graph(
        [helper.make_node("Identity", ["on"], ["still"]), helper.make_node("Sin", ["v"], ["next"])],
        "body",
        [
            helper.make_tensor_value_info(name, kind, shape)
            for name, kind, shape in (("i", 7, ()), ("on", 9, ()), ("v", 1, (1, 6, 4)))
        ],
        [helper.make_tensor_value_info("still", 9, ()), helper.make_tensor_value_info("next", 1, (1, 6, 4))],
    )
    endless = helper.make_node("Loop", ["count", "", "x"], ["y"], "loop", body=body)
    model = onnx_model([endless], {"x": (1, 6, 4)}, ["y"], {"count": 1 << 60})
    began = time.monotonic()
    with pytest.raises(NoReferenceError, match="did not finish within 3 s"):
        ReferenceProcess(deadline_s=3).run(model.SerializeToString(), X)
    assert time.monotonic() - began < 30


def test_the_row_of_a_model_without_a_reference_keeps_what_was_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    onnx.save(DEADLY, "deadly.onnx")
    assert cli.call(["run", "deadly.onnx", "--soc", "host", "--validate", "--json"]) == 1
    row = json.loads(capsys.readouterr().out)["rows"][0]
    assert row["status"] == "no_reference" and "SIGSEGV" in row["reason"]
    assert row["latency_ms"]["median"] > 0


def test_products_of_integers_do_not_saturate() -> None:
    """255 * 127 + 255 * 127 is more than 16 bits hold."""
    x, w = np.full((1, 2, 3, 3), 255, np.uint8), np.full((1, 2, 1, 1), 127, np.int8)
    stored = {"x": x, "w": w, "xs": np.float32(1), "zero": np.uint8(0), "ws": np.float32(1), "ys": np.float32(512)}
    graph = helper.make_graph(
        [
            helper.make_node("Identity", ["x"], ["same"]),
            helper.make_node("QLinearConv", ["same", "xs", "zero", "w", "ws", "wz", "ys", "zero"], ["conv"]),
            helper.make_node("ConvInteger", ["same", "w"], ["sums"]),
            helper.make_node("Cast", ["conv"], ["y"], to=TensorProto.FLOAT),
        ],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.UINT8, x.shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None), helper.make_tensor_value_info("sums", 6, None)],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in stored.items() if name != "x"]
        + [numpy_helper.from_array(np.int8(0), "wz")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    found = Oracle(model).outputs({"x": x})
    assert (found["sums"] == 2 * 255 * 127).all()
    assert (found["y"] == round(2 * 255 * 127 / 512)).all()
