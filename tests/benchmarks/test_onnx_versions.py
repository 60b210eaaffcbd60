"""A node test case in the form of an older version of its operator, as docs/operators.md measures it."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from benchmarks.mace_operators import MACE_OPERATORS
from benchmarks.onnx_cases import Case
from benchmarks.onnx_versions import in_version, versions
from runtime.importers.handlers import FARM_HANDLERS
from tests.runtime.onnx_models import one_op, random_array


def case(model: onnx.ModelProto, **inputs: object) -> Case:
    """A case of one operator, of which the outputs do not count."""
    arrays = {name: np.asarray(value) for name, value in inputs.items()}
    return Case("case", model.graph.node[0].op_type, model, arrays, {"y": np.zeros(1)}, 0, 0)


def test_versions_are_those_of_the_main_domain_that_are_in_force() -> None:
    assert versions("DepthToSpace") == [1, 11, 13, 28]
    assert 10 not in versions("Upsample")  # deprecated
    assert versions("SpaceToBatch") == []


def test_inputs_become_the_attributes_that_they_were() -> None:
    x = random_array((2, 1, 3))
    older = in_version(case(one_op("Squeeze", {"x": (2, 1, 3), "axes": (1,)}, opset=13), x=x, axes=[1]), 11)
    assert older is not None
    (node,), (opset,) = older.model.graph.node, older.model.opset_import
    assert (list(node.input), node.attribute[0].name, list(node.attribute[0].ints)) == (["x"], "axes", [1])
    assert opset.version == 11 and older.inputs.keys() == {"x"}
    np.testing.assert_array_equal(older.outputs["y"], x[:, 0])


def test_a_default_that_changed_is_written_out() -> None:
    x = random_array((2, 3, 4))
    older = in_version(case(one_op("Softmax", {"x": (2, 3, 4)}, opset=13), x=x), 11)
    assert older is not None
    assert onnx.helper.get_attribute_value(older.model.graph.node[0].attribute[0]) == -1
    np.testing.assert_allclose(older.outputs["y"].sum(axis=-1), 1, rtol=1e-6)


@pytest.mark.parametrize(
    ("model", "version"),
    [
        (one_op("DepthToSpace", {"x": (1, 4, 2, 2)}, opset=13, blocksize=2, mode="CRD"), 1),
        (one_op("Dropout", {"x": (1, 4, 2, 2), "ratio": ()}, opset=13), 1),
    ],
    ids=["mode", "is_test and consumed_inputs"],
)
def test_what_an_older_version_cannot_say_is_no_case_of_it(model: onnx.ModelProto, version: int) -> None:
    shapes = {value.name: [each.dim_value for each in value.type.tensor_type.shape.dim] for value in model.graph.input}
    values = {name: random_array(shape) for name, shape in shapes.items()}
    assert in_version(case(model, **values), version) is None


def test_mace_operators_are_done_by_operators_that_are_there() -> None:
    known = {schema.name for schema in onnx.defs.get_all_schemas()} | {f"farm.{name}" for name in FARM_HANDLERS}
    assert len(MACE_OPERATORS) == 51
    assert {each for operators, _ in MACE_OPERATORS.values() for each in operators} <= known
