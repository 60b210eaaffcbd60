"""Tensor names of a deployment file are found in the model, and become those of the converted one."""

import numpy as np
import onnx
import pytest
from onnx import helper

from runtime.errors import ModelError
from runtime.frameworks.names import find_tensor, rename, shown
from tests.farm.model.tiny_model import FLOAT, model_of

TENSORS = {"image:0": 1, "conv/Relu:0": 2, "plain": 3}


@pytest.mark.parametrize(
    ("name", "tensor"), [("image", 1), ("image:0", 1), ("conv/Relu", 2), ("plain", 3), ("plain:0", 3)]
)
def test_a_name_counts_with_or_without_its_output(name: str, tensor: int) -> None:
    assert find_tensor("input", name, TENSORS, ["image"]) == tensor


def test_a_wrong_name_is_answered_with_the_nearest() -> None:
    with pytest.raises(ModelError, match=r"^input tensor 'imagee' is not in the model, did you mean 'image'\?"):
        find_tensor("input", "imagee", TENSORS, ["image"])


def test_a_name_unlike_any_is_answered_with_the_models_own() -> None:
    with pytest.raises(ModelError, match=r"^output tensor 'zzz' is not in the model; its outputs are 'a', 'b'$"):
        find_tensor("output", "zzz", TENSORS, ["a", "b"])


def test_a_long_list_is_cut() -> None:
    assert shown([str(number) for number in range(15)]).endswith("'11' and 3 more")
    assert shown([]) == "none"


def test_renaming_keeps_what_the_model_computes() -> None:
    """An inner tensor has the name that the output is to get."""
    nodes = [
        helper.make_node("Add", ["x:0", "w"], ["y"], "add"),
        helper.make_node("Relu", ["y"], ["out:0"], "relu"),
    ]
    value = helper.make_tensor_value_info
    model = model_of(nodes, [value("x:0", FLOAT, [2])], [value("out:0", FLOAT, [2])], {"w": np.ones(2)})
    rename(model, {"x:0": "x", "out:0": "y"})
    onnx.checker.check_model(model, full_check=True)
    add, relu = model.graph.node
    assert (list(add.input), list(relu.output)) == (["x", "w"], ["y"])
    assert add.output == relu.input and add.output[0] not in ("x", "y", "w")


def test_renaming_reaches_inner_graphs() -> None:
    value = helper.make_tensor_value_info
    branches = {
        key: helper.make_graph([helper.make_node(op, ["x:0"], [key])], key, [], [value(key, FLOAT, [2])])
        for key, op in (("then_branch", "Relu"), ("else_branch", "Neg"))
    }
    nodes = [helper.make_node("If", ["c"], ["y:0"], "if", **branches)]
    inputs = [value("c", onnx.TensorProto.BOOL, []), value("x:0", FLOAT, [2])]
    model = model_of(nodes, inputs, [value("y:0", FLOAT, [2])])
    rename(model, {"x:0": "x", "y:0": "y"})
    onnx.checker.check_model(model, full_check=True)
