"""Every operator but convolution and pooling, in each form of its opsets, computes what ONNX Runtime computes."""

import dataclasses
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper

from runtime.errors import ModelError, UnsupportedError
from runtime.families.elementwise.definition import BINARY, UNARY
from runtime.families.resize.interpolation import COORDINATES
from runtime.importers.handlers import EXPANSIONS
from runtime.importers.onnx_importer import HANDLERS, import_onnx
from runtime.operators.table import OPERATORS, check_graph
from runtime.oracle.evaluate import evaluate
from runtime.semantics.recurrence import GATES
from tests.runtime.onnx_models import (
    NEWEST_RUNTIME_OPSET,
    assert_matches_onnxruntime,
    inputs_of,
    one_op,
    onnx_model,
    random_array,
    run_onnxruntime,
)

ALL = (7, 9, 11, 13, 18, NEWEST_RUNTIME_OPSET)
IMAGE = (2, 6, 4, 5)


@dataclasses.dataclass(frozen=True)
class Case:
    """One operator: shapes of its inputs, constants after them, attributes, the opsets that have this form."""

    op: str
    inputs: dict[str, tuple[int, ...]]
    constants: dict[str, Any] = dataclasses.field(default_factory=dict)
    attributes: dict[str, Any] = dataclasses.field(default_factory=dict)
    opsets: tuple[int, ...] = ALL
    order: tuple[str, ...] | None = None
    low: float = -2.0

    def __str__(self) -> str:
        forms = [f"{name}={value}" for name, value in self.attributes.items()]
        forms += [name if np.size(value) > 8 else f"{name}={value}" for name, value in self.constants.items()]
        return f"{self.op}({','.join([*map(str, self.inputs.values()), *forms])})".replace(" ", "")


X = {"x": IMAGE}
MATRIX = {"x": (3, 8)}
CASES = [
    *(Case(op, X) for op in ("Relu", "Sigmoid", "Tanh", "Exp", "Neg", "Abs", "Floor", "Ceil", "Identity")),
    *(Case(op, X) for op in ("Sin", "Cos", "Softplus")),
    Case("Round", X, opsets=(11, 22)),
    *(Case(op, X, low=0.1) for op in ("Log", "Sqrt", "Reciprocal")),
    Case("Erf", X, opsets=(9, 13)),
    Case("HardSwish", X, opsets=(14, 22)),
    *(Case(op, X, attributes=more) for op in ("LeakyRelu", "Elu", "ThresholdedRelu") for more in ({}, {"alpha": 0.3})),
    Case("Softsign", X),
    *(Case("HardSigmoid", X, attributes=more) for more in ({}, {"alpha": 0.3, "beta": 0.4})),
    Case("Clip", X, attributes={"min": -0.5, "max": 1.0}, opsets=(7, 10)),
    Case("Clip", X, attributes={"max": 1.0}, opsets=(7, 10)),
    Case("Clip", X, {"min": -0.5, "max": 1.0}, opsets=(11, 13)),
    Case("Clip", X, {"max": 1.0}, opsets=(11, 13), order=("x", "", "max")),
    Case("Clip", X, {"min": 0.0}, opsets=(11, 13)),
    Case("Clip", {"x": IMAGE, "low": ()}, {"max": 1.5}, opsets=(13,)),
    *(Case(op, {"a": IMAGE, "b": shape}) for op in ("Add", "Sub", "Mul") for shape in (IMAGE, (6, 1, 1), (5,), ())),
    *(Case("Div", {"a": IMAGE, "b": shape}, low=0.5) for shape in (IMAGE, (2, 1, 4, 1))),
    Case("Sub", {"x": IMAGE}, {"c": random_array((6, 1, 1))}, order=("c", "x")),
    *(Case(op, {"a": IMAGE, "b": IMAGE, "c": IMAGE}) for op in ("Sum", "Max", "Min", "Mean")),
    *(Case(op, {"a": IMAGE, "b": (5,)}, opsets=(8, 13)) for op in ("Sum", "Max", "Min", "Mean")),
    *(Case(op, {"a": IMAGE}) for op in ("Sum", "Max", "Min", "Mean")),
    Case("Pow", X, {"p": 2.0}, low=0.0),
    Case("Pow", X, {"p": 3}, opsets=(12, 15)),
    Case("Pow", {"a": IMAGE, "b": IMAGE}, low=0.1),
    Case("PRelu", X, {"slope": random_array((6, 1, 1))}, opsets=(7, 9, 16)),
    Case("PRelu", X, {"slope": random_array((1,))}, opsets=(7, 9, 16)),
    Case("Gemm", MATRIX, {"w": random_array((8, 4)), "c": random_array((4,))}),
    Case("Gemm", MATRIX, {"w": random_array((4, 8)), "c": random_array((1, 4))}, {"transB": 1, "alpha": 0.5}),
    Case("Gemm", MATRIX, {"w": random_array((4, 8)), "c": random_array(())}, {"transB": 1, "beta": 2.0}),
    Case("Gemm", MATRIX, {"w": random_array((4, 8)), "c": random_array((3, 1))}, {"transB": 1, "beta": 2.0}),
    Case("Gemm", MATRIX, {"w": random_array((4, 8))}, {"transB": 1}, opsets=(11, 13)),
    Case("Gemm", {"x": (8, 3)}, {"w": random_array((8, 4)), "c": random_array((3, 4))}, {"transA": 1}),
    Case("Gemm", {"x": (3, 8), "w": (4, 8), "c": (3, 4)}, {}, {"transB": 1, "alpha": 0.5, "beta": 0.25}),
    Case("Gemm", {"x": (3, 8), "w": (8, 4)}, {}, {"alpha": 0.5}, opsets=(11,)),
    Case("MatMul", MATRIX, {"w": random_array((8, 4))}),
    Case("MatMul", {"a": (2, 3, 4, 5), "b": (3, 5, 2)}),
    Case("MatMul", {"x": (2, 3, 8)}, {"w": random_array((8, 4))}),
    Case("Gelu", X, opsets=(20,)),
    Case("Gelu", X, attributes={"approximate": "tanh"}, opsets=(20,)),
    Case("Swish", X, attributes={"alpha": 0.5}, opsets=(24,)),
    Case("Mish", X, opsets=(18,)),
    Case("Selu", X),
    Case("Selu", X, attributes={"alpha": 1.5, "gamma": 2.0}),
    Case("Celu", X, attributes={"alpha": 1.5}, opsets=(12,)),
    Case("LayerNormalization", {"x": (2, 3, 8)}, {"s": random_array((8,)), "b": random_array((8,), 1)}, opsets=(17,)),
    Case("LayerNormalization", {"x": (2, 3, 8)}, {"s": random_array((8,))}, {"axis": 1, "epsilon": 0.1}, opsets=(17,)),
    Case("LayerNormalization", {"x": (2, 3, 8), "s": (8,), "b": (8,)}, opsets=(17,)),
    Case("RMSNormalization", {"x": (2, 3, 8)}, {"s": random_array((8,))}, opsets=(23,)),
    Case("InstanceNormalization", X, {"s": random_array((6,)), "b": random_array((6,), 1)}),
    Case("InstanceNormalization", {**X, "s": (6,), "b": (6,)}),
    Case("GroupNormalization", X, {"s": random_array((6,)), "b": random_array((6,))}, {"num_groups": 3}, opsets=(21,)),
    Case("GroupNormalization", X, {"s": random_array((3,)), "b": random_array((3,))}, {"num_groups": 3}, opsets=(18,)),
    Case("GroupNormalization", {**X, "s": (3,), "b": (3,)}, {}, {"num_groups": 3}, opsets=(18,)),
    Case("LRN", X, attributes={"size": 3}),
    Case("LRN", X, attributes={"size": 5, "alpha": 0.1, "beta": 0.6, "bias": 2.0}),
    *(Case("Softmax", X, attributes={"axis": axis}) for axis in (0, 1, 2, 3)),
    *(Case("Softmax", shape) for shape in (X, MATRIX, {"x": (2, 7, 1, 1)})),
    Case("Softmax", X, attributes={"axis": -2}, opsets=(11, 13)),
    Case("LogSoftmax", X, attributes={"axis": -2}, opsets=(11, 13)),
    Case("Dropout", X, attributes={"ratio": 0.3}, opsets=(7, 10)),
    Case("Dropout", X, {"ratio": 0.3, "training": np.asarray(False)}, opsets=(12, 13)),
    Case("Cast", X, attributes={"to": int(TensorProto.FLOAT)}, opsets=(9, 13, 19)),
    *(Case("Flatten", X, attributes={"axis": axis}) for axis in (0, 1, 2, 4)),
    Case("Flatten", X, attributes={"axis": -1}, opsets=(11, 13)),
    Case("Reshape", X, {"shape": [0, -1, 10]}),
    Case("Reshape", X, {"shape": [-1]}),
    Case("Squeeze", {"x": (2, 1, 3, 1)}, attributes={"axes": [1]}, opsets=(7, 11)),
    Case("Squeeze", {"x": (2, 1, 3, 1)}, {"axes": [-1, 1]}, opsets=(13, 21)),
    Case("Squeeze", {"x": (2, 1, 3, 1)}),
    Case("Unsqueeze", {"x": (2, 3)}, attributes={"axes": [0, 3]}, opsets=(7, 11)),
    Case("Unsqueeze", {"x": (2, 3)}, {"axes": [-1, 1]}, opsets=(13, 21)),
    *(Case("Transpose", X, attributes=more) for more in ({}, {"perm": [0, 2, 3, 1]})),
    Case("Concat", {"a": (2, 3, 4), "b": (2, 5, 4), "c": (2, 1, 4)}, attributes={"axis": 1}),
    Case("Concat", {"a": (2, 3), "b": (2, 5)}, attributes={"axis": -1}, opsets=(11, 13)),
    Case("Concat", {"a": (2, 3)}, attributes={"axis": 0}),
    Case("Slice", X, attributes={"starts": [1, -3], "ends": [99, -1], "axes": [1, 2]}, opsets=(7, 9)),
    Case("Slice", X, attributes={"starts": [0, 2], "ends": [1, 4]}, opsets=(7, 9)),
    Case("Slice", X, {"s": [-1, 0], "e": [-99, 9], "a": [3, -3], "t": [-1, 2]}, opsets=(10, 13)),
    Case("Slice", X, {"s": [0, 2], "e": [1, 4]}, opsets=(10, 13)),
    Case("Slice", X, {"s": [0], "e": [6], "a": [1]}, opsets=(10, 13)),
    Case("Pad", X, attributes={"pads": [0, 0, 1, 2, 0, 0, 3, 0], "value": 1.5}, opsets=(7, 10)),
    Case("Pad", X, attributes={"pads": [0, 0, 1, 2, 0, 0, 3, 0], "mode": "reflect"}, opsets=(7, 10)),
    Case("Pad", X, {"pads": [0, 1, 1, 2, 0, 0, 3, 0], "value": 1.5}, opsets=(11, 13)),
    Case("Pad", X, {"pads": [0, 0, 1, 2, 0, 0, 3, 0]}, {"mode": "edge"}, opsets=(11, 13)),
    Case("Pad", X, {"pads": [1, 0, 2, 3], "a": [2, -1]}, opsets=(18,), order=("x", "pads", "", "a")),
    Case("Upsample", X, attributes={"scales": [1.0, 1.0, 2.0, 3.0]}, opsets=(7,)),
    Case("Upsample", X, {"scales": [1.0, 1.0, 2.0, 3.0]}, {"mode": "linear"}, opsets=(9,)),
    Case("Resize", X, {"scales": [1.0, 1.0, 0.5, 2.0]}, opsets=(10,)),
    Case("Resize", X, {"scales": [1.0, 1.0, 1.6, 2.0]}, {"mode": "linear"}, opsets=(10,)),
    Case("Resize", X, {"scales": [2.0, 2.0]}, {"axes": [2, 3]}, opsets=(18,), order=("x", "", "scales")),
]
CASES += [
    Case(op, {"x": shape}, attributes=more, opsets=opsets)
    for op, shape in (("DepthToSpace", (2, 36, 2, 3)), ("SpaceToDepth", (2, 5, 12, 6)))
    for more, opsets in (({"blocksize": 2}, ALL), ({"blocksize": 3}, (11, 13)))
]
CASES += [
    Case("DepthToSpace", {"x": (2, 36, 2, 3)}, attributes={"blocksize": size, "mode": mode}, opsets=(11, 13))
    for size in (2, 3)
    for mode in ("DCR", "CRD")
]
BATCH_NORM = {
    "scale": random_array((6,), 1),
    "shift": random_array((6,), 2),
    "mean": random_array((6,), 3),
    "variance": random_array((6,), 4, 0.1),
}
CASES += [
    Case("BatchNormalization", shape, BATCH_NORM, more, opsets=(7, 9, 14, 15))
    for shape, more in ((X, {}), (X, {"epsilon": 0.1, "momentum": 0.5}), ({"x": (3, 6)}, {}))
]
CASES += [Case("BatchNormalization", {"x": shape}, BATCH_NORM) for shape in ((2, 6, 5), (2, 6, 3, 4, 2))]
CASES += [Case("Hardmax", X, attributes=more) for more in ({}, *({"axis": axis} for axis in (0, 1, 2, 3)))]
CASES += [Case("Hardmax", X, attributes={"axis": -2}, opsets=(11, 13))]
for reduction in ("ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin"):
    first = 13 if reduction == "ReduceSum" else 18
    old, new = tuple(v for v in (7, 11, 13) if v < first), (first, 20)
    CASES += [Case(reduction, X, attributes={"axes": [1, 3]}, opsets=old)]
    CASES += [Case(reduction, X, attributes={"axes": [2], "keepdims": 0}, opsets=old)]
    CASES += [Case(reduction, X, {"axes": [-1, 1]}, {"keepdims": 0}, opsets=new)]
    CASES += [Case(reduction, X), Case(reduction, X, attributes={"noop_with_empty_axes": 1}, opsets=new)]


@pytest.mark.parametrize(
    ("case", "opset"), [pytest.param(case, opset, id=f"{case}-{opset}") for case in CASES for opset in case.opsets]
)
def test_an_operator_computes_what_onnxruntime_computes(case: Case, opset: int) -> None:
    model = one_op(case.op, case.inputs, case.constants, opset, case.order, **case.attributes)
    assert_matches_onnxruntime(model, low=case.low)


def test_every_float_operator_has_a_case() -> None:
    """Operators of shape arithmetic, of windows and recurrent ones have tests in test_import_* and test_recurrent."""
    imported = {op for op in HANDLERS if op in OPERATORS or op in BINARY or op in UNARY} - EXPANSIONS.keys()
    assert imported - {case.op for case in CASES} == {"Conv", "ConvTranspose", "MaxPool", "AveragePool", *GATES}


def test_nothing_scattered_leaves_a_tensor_as_it_is() -> None:
    """As slices of torchvision's SwinTransformer3d do, which end where they begin."""
    constants = {"i": np.zeros((0, 1), np.int64), "u": np.zeros((0, 3), np.float32)}
    graph = import_onnx(one_op("ScatterND", {"x": (2, 3)}, constants, opset=16))
    x = random_array((2, 3))
    np.testing.assert_array_equal(evaluate(graph, {"x": x})[graph.outputs[0]], x)


@pytest.mark.parametrize("opset", [11, 13, 19])
@pytest.mark.parametrize("coordinates", ["half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric"])
@pytest.mark.parametrize("mode", ["nearest", "linear"])
@pytest.mark.parametrize("sizes", [(7, 11), (8, 10), (2, 3), (1, 1)])
def test_resize_computes_what_onnxruntime_computes(
    mode: str, coordinates: str, opset: int, sizes: tuple[int, int]
) -> None:
    attributes = {"mode": mode, "coordinate_transformation_mode": coordinates}
    constants = {"sizes": [*IMAGE[:2], *sizes]}
    model = one_op("Resize", X, constants, opset, order=("x", "roi" if opset < 13 else "", "", "sizes"), **attributes)
    if opset < 13:
        model.graph.initializer.append(helper.make_tensor("roi", TensorProto.FLOAT, [0], []))
        model.graph.initializer.append(helper.make_tensor("none", TensorProto.FLOAT, [0], []))
        model.graph.node[0].input[2] = "none"
    assert_matches_onnxruntime(model)


@pytest.mark.parametrize("coordinates", [each for each in COORDINATES if each != "tf_crop_and_resize"])
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
@pytest.mark.parametrize("scales", [(2.5, 1.7), (0.6, 0.45), (0.15, 3.3)])
def test_resize_by_scales_that_give_no_whole_size_computes_what_onnxruntime_computes(
    mode: str, coordinates: str, scales: tuple[float, float]
) -> None:
    attributes = {"mode": mode, "coordinate_transformation_mode": coordinates}
    constants = {"scales": [1.0, 1.0, *scales]}
    model = one_op("Resize", {"x": (1, 2, 7, 9)}, constants, 19, order=("x", "", "scales"), **attributes)
    assert_matches_onnxruntime(model)


@pytest.mark.parametrize("rounding", ["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"])
def test_nearest_resize_rounds_as_onnxruntime_does(rounding: str) -> None:
    attributes = {"nearest_mode": rounding, "coordinate_transformation_mode": "asymmetric"}
    constants = {"scales": [1.0, 1.0, 2.0, 0.5]}
    assert_matches_onnxruntime(one_op("Resize", X, constants, 13, order=("x", "", "scales"), **attributes))


@pytest.mark.parametrize(
    ("opset", "attributes", "constants"),
    [
        (7, {"axis": 1, "split": [1, 3, 2]}, {}),
        (13, {"axis": -3}, {"split": [1, 3, 2]}),
        (7, {"axis": 1}, {}),
        (13, {"axis": 1}, {}),
        (18, {"axis": 3, "num_outputs": 3}, {}),
    ],
)
def test_split_becomes_slices(opset: int, attributes: dict[str, Any], constants: dict[str, Any]) -> None:
    model = one_op("Split", X, constants, opset, outputs=("a", "b", "c"), **attributes)
    graph = assert_matches_onnxruntime(model)
    assert {node.op for node in graph.nodes} == {"Slice"}


shapes = st.lists(st.integers(1, 4), max_size=4).map(tuple)


@pytest.mark.slow
@settings(max_examples=60)
@given(data=st.data(), full=shapes)
def test_shapes_broadcast_as_in_onnxruntime(data: st.DataObject, full: tuple[int, ...]) -> None:
    """Any two shapes that broadcast to `full`: leading axes missing, axes of size 1."""

    def part() -> tuple[int, ...]:
        kept = full[data.draw(st.integers(0, len(full))) :]
        return tuple(size if data.draw(st.booleans()) else 1 for size in kept)

    op = data.draw(st.sampled_from(["Add", "Sub", "Mul", "Max", "Min"]))
    assert_matches_onnxruntime(one_op(op, {"a": part(), "b": part()}, opset=13))


@pytest.mark.slow
@settings(max_examples=60)
@given(start=st.integers(-9, 9), end=st.integers(-9, 9), step=st.sampled_from([-3, -2, -1, 1, 2, 3]))
def test_a_slice_of_any_range_takes_what_onnxruntime_takes(start: int, end: int, step: int) -> None:
    constants = {"s": [start], "e": [end], "a": [1], "t": [step]}
    model = one_op("Slice", {"x": (2, 6, 3)}, constants, 13)
    (expected,) = run_onnxruntime(model, {"x": random_array((2, 6, 3))})
    if expected.size:
        assert_matches_onnxruntime(model)
    else:
        with pytest.raises(UnsupportedError, match=r"'y' of shape \(2, 0, 3\) has no elements"):
            check_graph(import_onnx(model))


def test_equivalent_operators_become_the_one_form_that_later_stages_know() -> None:
    """Later stages know a single form of each operation, so that they need no cases for the others."""
    forms = {
        "FullyConnected": one_op("MatMul", MATRIX, {"w": random_array((8, 4))}),
        "Relu": one_op("Clip", X, {"min": 0.0}),
        "Reshape": one_op("Flatten", X),
        "Identity": one_op("Slice", X, {"s": [0], "e": [6], "a": [1]}),
    }
    for expected, model in forms.items():
        assert [node.op for node in import_onnx(model).nodes] == [expected]


def test_a_reduction_keeps_its_axes_and_a_reshape_drops_them() -> None:
    graph = import_onnx(one_op("ReduceMean", X, opset=13, axes=[2, 3], keepdims=0))
    assert [(node.op, node.attrs.get("keepdims")) for node in graph.nodes] == [("ReduceMean", True), ("Reshape", None)]


def test_node_names_are_unique_and_kept() -> None:
    nodes = [helper.make_node("Relu", ["x"], ["a"], "same"), helper.make_node("Relu", ["a"], ["y"], "same")]
    graph = import_onnx(onnx_model(nodes, X, ["y"]))
    assert [node.name for node in graph.nodes] == ["same", "same_1"]


def test_intermediate_tensors_do_not_take_names_of_the_model() -> None:
    nodes = [
        helper.make_node("ReduceMean", ["x"], ["y"], axes=[1], keepdims=0),
        helper.make_node("Relu", ["x"], ["y/ReduceMean"]),
    ]
    model = onnx_model(nodes, X, ["y", "y/ReduceMean"], opset=13)
    assert inputs_of(assert_matches_onnxruntime(model)).keys() == {"x"}


@pytest.mark.parametrize("mode", ["DCR", "CRD"])
def test_blocks_of_pixels_of_integers_go_over_six_axes(mode: str) -> None:
    model = one_op("DepthToSpace", {"x": (2, 8, 3, 2)}, opset=13, blocksize=2, mode=mode)
    for value in (*model.graph.input, *model.graph.output):
        value.type.tensor_type.elem_type = TensorProto.UINT8
    graph, x = import_onnx(model), np.arange(96, dtype=np.uint8).reshape(2, 8, 3, 2)
    assert {node.op for node in graph.nodes} <= {"Strided", "Reshape"}
    np.testing.assert_array_equal(evaluate(graph, {"x": x})["y"], run_onnxruntime(model, {"x": x})[0])


@pytest.mark.parametrize(
    ("op", "more", "reason"),
    [
        ("DepthToSpace", {"blocksize": 4}, "6 channels do not split into blocks of 4 x 4 pixels"),
        ("SpaceToDepth", {"blocksize": 2}, "4 x 5 pixels do not split into blocks of 2 x 2"),
        ("DepthToSpace", {"blocksize": 0}, "blocksize is 0"),
    ],
)
def test_blocks_of_pixels_that_do_not_fit_are_refused(op: str, more: dict[str, Any], reason: str) -> None:
    with pytest.raises(ModelError, match=rf"^node 'node' \({op}\): {reason}"):
        import_onnx(one_op(op, X, opset=13, **more))


UPDATES = {"u": random_array((1, 3))}
OUTSIDE: list[tuple[str, dict[str, Any], dict[str, Any], str]] = [
    ("Gather", {"i": [2]}, {}, "index 2 of 'i' is outside of axis 0, which has 2"),
    ("Gather", {"i": [0, -3]}, {}, "index -3 of 'i' is outside of axis 0, which has 2"),
    ("Gather", {"i": [2, 3]}, {"axis": -1}, "index 3 of 'i' is outside of axis 1, which has 3"),
    ("GatherElements", {"i": [[0, 1, 2]]}, {}, "index 2 of 'i' is outside of axis 0, which has 2"),
    ("GatherND", {"i": [[1, 2], [1, 3]]}, {}, "index 3 of 'i' is outside of axis 1, which has 3"),
    ("GatherND", {"i": [[2], [3]]}, {"batch_dims": 1}, "index 3 of 'i' is outside of axis 1, which has 3"),
    ("ScatterElements", {"i": [[0, 1, -3]], **UPDATES}, {}, "index -3 of 'i' is outside of axis 0, which has 2"),
    ("ScatterND", {"i": [[2]], **UPDATES}, {}, "index 2 of 'i' is outside of axis 0, which has 2"),
]


@pytest.mark.parametrize(("op", "constants", "more", "reason"), OUTSIDE, ids=lambda value: str(value)[:24])
def test_a_constant_index_outside_of_its_axis_is_refused(
    op: str, constants: dict[str, Any], more: dict[str, Any], reason: str
) -> None:
    with pytest.raises(ModelError, match=rf"^node 'node' \({op}\): {reason}"):
        import_onnx(one_op(op, {"x": (2, 3)}, constants, 13, **more))


INSIDE: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("Gather", {"i": [1, -2]}, {}),
    ("Gather", {"i": -3}, {"axis": 1}),
    ("GatherElements", {"i": [[0, 1, -2]]}, {}),
    ("GatherND", {"i": [[1, 2], [-2, -3]]}, {}),
    ("ScatterElements", {"i": [[0, 1, -2]], **UPDATES}, {}),
    ("ScatterND", {"i": [[-2]], **UPDATES}, {}),
]


@pytest.mark.parametrize(("op", "constants", "more"), INSIDE, ids=lambda value: str(value)[:24])
def test_the_outermost_indices_are_taken_from_either_end(
    op: str, constants: dict[str, Any], more: dict[str, Any]
) -> None:
    assert_matches_onnxruntime(one_op(op, {"x": (2, 3)}, constants, 13, **more))


@pytest.mark.parametrize("shape", [(5, 6), (3, 6, 5), IMAGE], ids=str)
def test_batch_normalisation_in_training_takes_the_batch_s_moments(shape: tuple[int, ...]) -> None:
    names = ("y", "running_mean", "running_variance")
    attributes: dict[str, Any] = {"training_mode": 1, "momentum": 0.75, "epsilon": 0.1}
    graph = import_onnx(one_op("BatchNormalization", {"x": shape}, BATCH_NORM, 15, outputs=names, **attributes))
    x = random_array(shape, 7)
    axes = tuple(axis for axis in range(len(shape)) if axis != 1)
    mean, variance = x.mean(axes, keepdims=True), x.var(axes, keepdims=True)
    scale, shift = (BATCH_NORM[name].reshape(mean.shape) for name in ("scale", "shift"))
    expected = (
        (x - mean) / np.sqrt(variance + 0.1) * scale + shift,
        *(0.75 * BATCH_NORM[name] + 0.25 * own.reshape(-1) for name, own in (("mean", mean), ("variance", variance))),
    )
    found = evaluate(graph, {"x": x})
    for name, value in zip(names, expected, strict=True):
        np.testing.assert_allclose(found[name], value, rtol=1e-5, atol=1e-5, err_msg=name)


def test_batch_normalisation_of_a_constant_batch_is_a_constant() -> None:
    batch = {"x": random_array(IMAGE), **BATCH_NORM}
    graph = import_onnx(one_op("BatchNormalization", {}, batch, 15, training_mode=1))
    assert not graph.nodes and graph.constants.keys() == {"y"}
