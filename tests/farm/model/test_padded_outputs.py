"""Reference outputs that are smaller than the plan's: those of a model that suppresses boxes."""

import numpy as np
from onnx import TensorProto, helper

from farm.model.oracle import expected_outputs
from farm.model.padded_outputs import filled
from runtime.convert import convert
from tests.runtime.onnx_models import one_op, onnx_model, random_array

SHAPES = {"boxes": (1, 20, 4), "scores": (1, 2, 20)}
INPUTS = {"boxes": random_array(SHAPES["boxes"], 1, 0, 2), "scores": random_array(SHAPES["scores"], 2)}
CONSTANTS = {"most": 15, "limit": 0.2, "least": 0.5, "column": [2], "rows": [20, 4]}


def detector() -> helper.ModelProto:
    """The boxes that are kept, and their numbers."""
    nodes = [
        helper.make_node("NonMaxSuppression", ["boxes", "scores", "most", "limit", "least"], ["kept"]),
        helper.make_node("Gather", ["kept", "column"], ["numbers"], axis=1),
        helper.make_node("Reshape", ["boxes", "rows"], ["all"]),
        helper.make_node("GatherND", ["all", "numbers"], ["chosen"]),
    ]
    model = onnx_model(nodes, SHAPES, ["chosen", "kept"], CONSTANTS)
    model.graph.output[1].type.tensor_type.elem_type = TensorProto.INT64
    return model


def test_the_rest_is_what_the_graph_computes() -> None:
    model = detector()
    expected = expected_outputs(model, INPUTS)
    graph, _ = convert(model)
    count = len(expected["kept"])
    assert 0 < count < 30
    found = filled(graph, expected, INPUTS)
    assert {name: value.shape for name, value in found.items()} == {"chosen": (30, 4), "kept": (30, 3)}
    for name, value in expected.items():
        np.testing.assert_array_equal(found[name][:count], value)
    assert (found["kept"][count:] == -1).all()
    np.testing.assert_array_equal(found["chosen"][count:], np.repeat(INPUTS["boxes"][0, -1:], 30 - count, axis=0))


def test_elements_that_are_not_zero_are_compared_as_far_as_the_oracle_has_them() -> None:
    model, x = one_op("NonZero", {"x": (3, 4)}), np.eye(3, 4, dtype=np.float32)
    model.graph.output[0].type.tensor_type.elem_type = TensorProto.INT64
    expected = expected_outputs(model, {"x": x})
    assert expected["y"].shape == (2, 3)
    found = filled(convert(model)[0], expected, {"x": x})["y"]
    assert found.shape == (2, 12)
    np.testing.assert_array_equal(found[:, :3], expected["y"])
    assert (found[:, 3:] == -1).all()


def test_other_models_keep_the_shapes_of_the_oracle() -> None:
    graph, _ = convert(one_op("Relu", {"x": (3, 4)}))
    expected = {"y": np.zeros((2, 4), np.float32)}
    assert filled(graph, expected, {"x": np.zeros((3, 4), np.float32)})["y"].shape == (2, 4)


def test_an_output_that_is_larger_than_the_plans_stays_so() -> None:
    graph, _ = convert(detector())
    expected = {"kept": np.zeros((31, 3), np.int64)}
    assert filled(graph, expected, INPUTS)["kept"].shape == (31, 3)
