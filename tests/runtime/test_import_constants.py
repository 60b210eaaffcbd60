"""Shape arithmetic is evaluated at import, so that none of it reaches the graph."""

from typing import Any

import numpy as np
import pytest
from onnx import NodeProto, TensorProto, helper, numpy_helper

from runtime.errors import ModelError, UnsupportedError
from runtime.importers.onnx_importer import import_onnx
from tests.runtime.onnx_models import assert_matches_onnxruntime, one_op, onnx_model, random_array

INT64, FLOAT = int(TensorProto.INT64), int(TensorProto.FLOAT)


def node(op: str, inputs: str, output: str, **attributes: Any) -> NodeProto:
    return helper.make_node(op, inputs.split(), [output], **attributes)


def test_a_flatten_exported_as_shape_gather_unsqueeze_concat_is_one_reshape() -> None:
    nodes = [
        node("Shape", "x", "shape"),
        node("Gather", "shape zero", "batch", axis=0),
        node("Unsqueeze", "batch", "batch1", axes=[0]),
        node("Concat", "batch1 minus1", "target", axis=0),
        node("Reshape", "x target", "y"),
    ]
    model = onnx_model(nodes, {"x": (2, 3, 4)}, ["y"], {"zero": 0, "minus1": [-1]}, 11)
    graph = assert_matches_onnxruntime(model)
    assert [(n.op, n.attrs) for n in graph.nodes] == [("Reshape", {"shape": (2, 12)})]
    assert graph.constants == {}


def test_sizes_computed_in_floating_point_are_folded() -> None:
    nodes = [
        node("Shape", "x", "shape"),
        node("Slice", "shape two four", "image"),
        node("Cast", "image", "image_f", to=FLOAT),
        node("Mul", "image_f factor", "scaled"),
        node("Floor", "scaled", "floored"),
        node("Cast", "floored", "image_i", to=INT64),
        node("Slice", "shape zero two", "rest"),
        node("Concat", "rest image_i", "sizes", axis=0),
        helper.make_node("Resize", ["x", "", "", "sizes"], ["y"]),
    ]
    constants = {"zero": [0], "two": [2], "four": [4], "factor": 1.7}
    graph = assert_matches_onnxruntime(onnx_model(nodes, {"x": (1, 2, 5, 6)}, ["y"], constants, 13))
    assert [n.op for n in graph.nodes] == ["Resize"]


def test_pads_that_torch_exports_in_reverse_order_are_folded() -> None:
    nodes = [
        node("ConstantOfShape", "four", "zeros", value=helper.make_tensor("v", INT64, [1], [0])),
        node("Concat", "given zeros", "all", axis=0),
        node("Reshape", "all pairs", "matrix"),
        node("Slice", "matrix last first zero minus1", "turned"),
        node("Transpose", "turned", "swapped", perm=[1, 0]),
        node("Reshape", "swapped flat", "pads0"),
        node("Cast", "pads0", "pads", to=INT64),
        node("Pad", "x pads value", "y", mode="constant"),
    ]
    constants = {
        "four": [4],
        "given": [1, 2, 3, 0],
        "pairs": [-1, 2],
        "last": [-1],
        "first": [-(2**63) + 1],
        "zero": [0],
        "minus1": [-1],
        "flat": [-1],
        "value": 0.5,
    }
    graph = assert_matches_onnxruntime(onnx_model(nodes, {"x": (1, 2, 5, 6)}, ["y"], constants, 13))
    assert [n.attrs["pads"] for n in graph.nodes] == [(0, 0, 3, 1, 0, 0, 0, 2)]


FOLDED = [
    ("Constant", {}, {"value_ints": [2, 3]}, 13),
    ("Constant", {}, {"value_float": 1.5}, 13),
    ("Constant", {}, {"value": numpy_helper.from_array(random_array((2, 2)))}, 9),
    ("ConstantOfShape", {"s": [2, 3]}, {}, 9),
    ("Gather", {"d": random_array((3, 4)), "i": [[0, -1]]}, {"axis": 1}, 13),
    ("Range", {"a": 1, "b": 9, "c": 3}, {}, 11),
    ("Expand", {"d": random_array((3, 1)), "s": [2, 1, 4]}, {}, 13),
    ("Tile", {"d": random_array((3, 2)), "r": [2, 1]}, {}, 13),
    ("ReduceProd", {"d": [2, 3, 4]}, {"keepdims": 0}, 13),
    ("Mod", {"a": [7, -7], "b": [3, 3]}, {}, 13),
    ("Where", {"c": np.asarray([True, False]), "a": [1.0, 2.0], "b": [3.0, 4.0]}, {}, 9),
    ("Div", {"a": [7, -7], "b": [2, 2]}, {}, 13),
    ("Squeeze", {"d": [[1, 2]], "a": [0]}, {}, 13),
    ("Size", {"d": random_array((3, 2))}, {}, 13),
    ("Shape", {"d": random_array((3, 2, 5))}, {"start": 1, "end": -1}, 15),
    ("Round", {"d": [0.5, 1.5, -2.5]}, {}, 11),
]


@pytest.mark.parametrize(("op", "constants", "attributes", "opset"), FOLDED)
def test_an_operator_of_constants_is_folded_to_onnxruntimes_value(
    op: str, constants: dict[str, Any], attributes: dict[str, Any], opset: int
) -> None:
    """Casts the result to float and adds it to an input, so that it is an ordinary constant of the graph."""
    nodes = [
        helper.make_node(op, list(constants), ["folded"], **attributes),
        node("Cast", "folded", "f", to=FLOAT),
        node("Add", "x f", "y"),
    ]
    graph = assert_matches_onnxruntime(onnx_model(nodes, {"x": ()}, ["y"], constants, opset))
    assert [n.op for n in graph.nodes] == ["Add"]


@pytest.mark.parametrize("op", ["Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual"])
def test_comparisons_of_constants_are_folded(op: str) -> None:
    nodes = [
        node(op, "a b", "raw"),
        node("Not", "raw", "negated"),
        node("And", "negated raw", "never"),
        node("Or", "never raw", "c"),
        node("Cast", "c", "f", to=FLOAT),
        node("Add", "x f", "y"),
    ]
    constants = {"a": [1, 2, 3], "b": [2, 2, 2]}
    assert_matches_onnxruntime(onnx_model(nodes, {"x": (3,)}, ["y"], constants, 16))


def test_expand_to_the_own_shape_is_the_identity() -> None:
    graph = assert_matches_onnxruntime(one_op("Expand", {"x": (2, 3)}, {"s": [1, 3]}, 13))
    assert [n.op for n in graph.nodes] == ["Identity"]


def test_weights_of_constant_of_shape_are_constants() -> None:
    nodes = [
        node("ConstantOfShape", "s", "w", value=helper.make_tensor("v", FLOAT, [1], [0.25])),
        node("Conv", "x w", "y"),
    ]
    graph = assert_matches_onnxruntime(onnx_model(nodes, {"x": (1, 2, 5, 5)}, ["y"], {"s": [3, 2, 3, 3]}, 9))
    assert list(graph.constants) == ["w"]


@pytest.mark.parametrize("kind", [np.float16, np.float64])
def test_weights_of_other_precision_become_float32(kind: type) -> None:
    model = one_op("Add", {"x": (3,)}, {})
    model.graph.node[0].input.append("c")
    model.graph.initializer.append(numpy_helper.from_array(np.asarray([1, 2, 3], kind), "c"))
    constant = import_onnx(model).constants["c"]
    assert constant.dtype == np.float32
    assert constant.tolist() == [1, 2, 3]


def test_an_output_that_is_constant_stays_an_output() -> None:
    graph = import_onnx(onnx_model([node("Neg", "c", "y")], {}, ["y"], {"c": [1.0, 2.0]}))
    assert graph.nodes == []
    assert graph.constants["y"].tolist() == [-1, -2]


@pytest.mark.parametrize(
    ("op", "constants", "text"),
    [
        ("ConstantOfShape", {"s": [1 << 40]}, r"constant of shape \(1099511627776,\) is larger than"),
        ("Expand", {"d": [1.0], "s": [1 << 40]}, "is larger than"),
        ("Tile", {"d": [1.0], "r": [1 << 40]}, "is larger than"),
        ("Range", {"a": 0, "b": 1 << 40, "c": 1}, "is larger than"),
        ("Range", {"a": 0, "b": 1, "c": 0}, "step is 0"),
        ("Gather", {"d": [1.0], "i": [5]}, r"index 5 of .* is outside of axis 0, which has 1 element"),
        ("Where", {"c": np.asarray([True]), "a": [1.0, 2.0], "b": [1.0, 2.0, 3.0]}, "do not broadcast"),
        ("Reshape", {"d": [1.0], "s": [-1, -1]}, r"shape \[-1, -1\] is not a shape"),
        ("Reshape", {"d": [1.0], "s": [7]}, r"shape \(1,\) does not reshape to \(7,\)"),
        ("Squeeze", {"d": [1.0, 2.0], "a": [0]}, r"axes \[0\] of an input of shape \(2,\) are not all 1"),
    ],
)
def test_constants_that_do_not_fit_are_refused(op: str, constants: dict[str, Any], text: str) -> None:
    with pytest.raises(ModelError, match=text):
        import_onnx(onnx_model([helper.make_node(op, list(constants), ["y"])], {}, ["y"], constants, 13))


def test_shape_arithmetic_on_run_time_values_is_refused() -> None:
    """What was shape arithmetic only runs as any other operator where its inputs are not constant."""
    assert [node.op for node in import_onnx(one_op("Gather", {"x": (3, 4)}, {"i": [0, 2]})).nodes] == ["IndexedRead"]
    (cast,) = import_onnx(one_op("Cast", {"x": (3, 4)}, to=INT64)).nodes
    assert (cast.op, cast.attrs["dtype"]) == ("Elementwise", "int64")
    with pytest.raises(UnsupportedError, match=r"\(Range\): input 'x' is computed at run time; supported: constants"):
        import_onnx(one_op("Range", {"x": ()}, {"limit": 3.0, "step": 1.0}))


@pytest.mark.parametrize("name", ["FLOAT8E4M3FN", "FLOAT8E5M2", "FLOAT4E2M1", "COMPLEX64", "STRING"])
def test_a_cast_to_a_type_that_the_graph_lacks_is_refused_by_name(name: str) -> None:
    number = TensorProto.DataType.Value(name)
    with pytest.raises(UnsupportedError, match=f"'node' \\(Cast\\): to is '{name}'; supported: float32, float16"):
        import_onnx(one_op("Cast", {"x": (3, 4)}, opset=23, to=number))


@pytest.mark.parametrize("kind", ["FLOAT8E5M2", "FLOAT8E4M3FN", "COMPLEX64"])
def test_a_constant_of_a_type_that_no_runtime_has_is_refused(kind: str) -> None:
    """NumPy takes some of them for floating-point numbers, and would cast them to integers."""
    model = onnx_model([node("DequantizeLinear", "w scale", "y")], {}, ["y"], {"scale": np.float32(2.0)}, 23)
    model.graph.initializer.append(helper.make_tensor("w", TensorProto.DataType.Value(kind), [2], [1.0, 0.0]))
    with pytest.raises(UnsupportedError, match=r"tensor 'w' holds \w+; supported: float32, "):
        import_onnx(model)


@pytest.mark.parametrize("kind", ["INT4", "UINT4"])
def test_weights_of_four_bits_are_read_as_eight(kind: str) -> None:
    nodes = [node("DequantizeLinear", "w scale zero", "v", axis=0, block_size=2), node("Mul", "x v", "y")]
    model = onnx_model(nodes, {"x": (4, 3)}, ["y"], {"scale": random_array((2, 3), low=0.1)}, 21)
    number, low = TensorProto.DataType.Value(kind), 0 if kind == "UINT4" else -8
    values = np.random.default_rng(0).integers(low, low + 16, 12)
    model.graph.initializer.append(helper.make_tensor("w", number, [4, 3], values))
    model.graph.initializer.append(helper.make_tensor("zero", number, [2, 3], values[:6]))
    assert_matches_onnxruntime(model)


def test_four_bits_that_are_an_output_are_refused() -> None:
    model = onnx_model([node("QuantizeLinear", "x scale w", "y")], {"x": (3,)}, ["y"], {"scale": np.float32(2.0)}, 21)
    model.graph.initializer.append(helper.make_tensor("w", TensorProto.INT4, [], [1]))
    with pytest.raises(UnsupportedError, match="tensor 'w' holds int4"):
        import_onnx(model)
