"""Random numbers are drawn at import: spread as ONNX says, the same each time, and the oracle has them, too."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from farm.model.oracle import Oracle
from runtime.convert import convert
from runtime.errors import ModelError, UnsupportedError
from runtime.graph import Array
from runtime.importers.onnx_importer import import_onnx
from runtime.oracle.evaluate import evaluate
from tests.runtime.onnx_models import one_op, onnx_model, random_array

SHAPE = (40, 50)
X = {"x": SHAPE}


def values(model: onnx.ModelProto, inputs: Mapping[str, Array] | None = None) -> Array:
    """The first output: of the imported graph, which must be that of the oracle."""
    given = dict(inputs or {name: np.zeros(SHAPE, np.float32) for name in _names(model)})
    graph, reports = convert(model)
    assert [report.changes for report in reports if report.name.startswith("random numbers")] == [["node"]]
    found, expected = evaluate(graph, given)["y"], Oracle(model).outputs(given)["y"]
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found, expected)
    return found


def _names(model: onnx.ModelProto) -> list[str]:
    return [value.name for value in model.graph.input]


def typed(model: onnx.ModelProto, kind: int) -> onnx.ModelProto:
    """The model with outputs of an element type."""
    for value in model.graph.output:
        value.type.tensor_type.elem_type = kind
    return model


@pytest.mark.parametrize("opset", [7, 13, 22])
@pytest.mark.parametrize("op", ["RandomNormal", "RandomNormalLike"])
def test_normal_numbers_have_mean_and_deviation(op: str, opset: int) -> None:
    like: dict[str, Any] = {"inputs": X} if op.endswith("Like") else {"inputs": {}, "shape": SHAPE}
    found = values(one_op(op, opset=opset, mean=3.0, scale=2.0, **like))
    assert found.shape == SHAPE
    assert abs(found.mean() - 3) < 0.2 and abs(found.std() - 2) < 0.15
    assert len(np.unique(found)) > 1900


@pytest.mark.parametrize("opset", [7, 13, 22])
@pytest.mark.parametrize("op", ["RandomUniform", "RandomUniformLike"])
def test_uniform_numbers_lie_between_their_bounds(op: str, opset: int) -> None:
    like: dict[str, Any] = {"inputs": X} if op.endswith("Like") else {"inputs": {}, "shape": SHAPE}
    found = values(one_op(op, opset=opset, low=-1.0, high=3.0, **like))
    assert found.shape == SHAPE
    assert -1 <= found.min() < -0.95 and 2.95 < found.max() <= 3
    assert abs(found.mean() - 1) < 0.1


@pytest.mark.parametrize("opset", [15, 22])
def test_bernoulli_is_one_as_often_as_the_input_says(opset: int) -> None:
    chances = np.broadcast_to(np.linspace(0, 1, SHAPE[1], dtype=np.float32), SHAPE)
    found = values(one_op("Bernoulli", X, opset=opset), {"x": chances})
    assert set(np.unique(found)) == {0, 1}
    assert not found[:, 0].any() and found[:, -1].all()
    assert abs(found[:, 10:40].mean() - 0.5) < 0.06


def test_bernoulli_has_the_type_that_the_node_names() -> None:
    model = typed(one_op("Bernoulli", X, opset=15, dtype=int(TensorProto.INT64)), TensorProto.INT64)
    assert values(model, {"x": np.full(SHAPE, 0.5, np.float32)}).dtype == np.int64


@pytest.mark.parametrize("opset", [7, 13, 22])
def test_multinomial_draws_classes_by_their_probability(opset: int) -> None:
    model = typed(one_op("Multinomial", {"x": (2, 3)}, opset=opset, sample_size=2000), TensorProto.INT32)
    chances = np.array([[0.2, 0.3, 0.5], [0.7, 0.1, 0.2]])
    found = values(model, {"x": np.log(4 * chances).astype(np.float32)})
    assert found.shape == (2, 2000)
    for row, expected in zip(found, chances, strict=True):
        np.testing.assert_allclose(np.bincount(row, minlength=3) / 2000, expected, atol=0.04)


def test_a_seed_decides_the_numbers_and_else_the_output_s_name_does() -> None:
    def drawn(*outputs: str, **more: Any) -> list[Array]:
        nodes = [helper.make_node("RandomNormal", [], [name], name, shape=[9], **more) for name in outputs]
        graph = import_onnx(onnx_model(nodes, {}, outputs))
        return [graph.constants[name] for name in outputs]

    seeded, others = drawn("a", "b", seed=3.0), drawn("a", "b")
    np.testing.assert_array_equal(seeded[0], seeded[1])
    np.testing.assert_array_equal(others, drawn("a", "b"))
    assert len({values.tobytes() for values in (*seeded, *others, *drawn("a", seed=4.0))}) == 4


def test_the_oracle_takes_numbers_that_a_network_computes_with() -> None:
    nodes = [
        helper.make_node("RandomNormalLike", ["x"], ["noise"], "noise"),
        helper.make_node("Add", ["x", "noise"], ["y"], "sum"),
    ]
    model, x = onnx_model(nodes, {"x": (3, 4)}, ["y"]), random_array((3, 4))
    expected = Oracle(model).outputs({"x": x})["y"]
    np.testing.assert_array_equal(evaluate(convert(model)[0], {"x": x})["y"], expected)
    assert np.abs(expected - x).min() > 0


def test_numbers_of_half_precision_keep_their_type() -> None:
    model = one_op("RandomNormalLike", X, opset=15)
    for value in (*model.graph.input, *model.graph.output):
        value.type.tensor_type.elem_type = TensorProto.FLOAT16
    assert values(model, {"x": np.zeros(SHAPE, np.float16)}).dtype == np.float16


def test_numbers_within_a_branch_are_refused() -> None:
    node = helper.make_node("RandomUniform", [], ["r"], "r", shape=[2])
    branch = helper.make_graph([node], "b", [], [helper.make_tensor_value_info("r", TensorProto.FLOAT, [2])])
    model = onnx_model(
        [helper.make_node("If", ["yes"], ["y"], then_branch=branch, else_branch=branch)],
        {},
        ["y"],
        {"yes": np.asarray(True)},
    )
    with pytest.raises(UnsupportedError, match=r"\(RandomUniform\): it is within another node"):
        import_onnx(model)


@pytest.mark.parametrize(
    ("op", "inputs", "more", "reason"),
    [
        ("RandomUniform", {}, {}, "a list of sizes is needed"),
        ("RandomUniform", {}, {"shape": [2, -1]}, "a list of sizes is needed"),
        ("RandomUniform", {}, {"shape": [2**20, 2**20]}, "is larger than"),
        ("Multinomial", X, {"sample_size": 0}, "0 sample"),
        ("Multinomial", {"x": (2, 3, 4)}, {}, "rows of classes are needed"),
    ],
)
def test_numbers_that_cannot_be_drawn_are_refused(op: str, inputs: Any, more: dict[str, Any], reason: str) -> None:
    with pytest.raises(ModelError, match=reason):
        import_onnx(one_op(op, inputs, opset=13, **more))
