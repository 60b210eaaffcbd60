"""Generic operators: what they compute, how they are exported and read back, and what their forms say."""

from typing import Any

import numpy as np
import pytest

from runtime.errors import ModelError
from runtime.exporters.onnx_exporter import export_onnx
from runtime.importers.onnx_importer import import_onnx
from runtime.operators.table import check_graph, infer_shape
from runtime.oracle.evaluate import compute, evaluate
from runtime.semantics.generic import GENERIC_OPERATORS
from runtime.semantics.generic_forms import generic_form
from tests.runtime.generic_cases import GENERIC_CASES, GenericCase

FORMS: list[tuple[str, list[tuple[int, ...]], dict[str, Any]]] = [
    ("Add", [(2, 3), (3,)], {}),
    ("Max", [(2, 1), (1, 3)], {}),
    ("Slice", [(5, 6)], {"starts": (4, 1), "ends": (-1, 6), "axes": (0, 1), "steps": (-2, 2)}),
    ("Transpose", [(2, 3, 4)], {"perm": (2, 0, 1)}),
    ("Reshape", [(2, 6)], {"shape": (3, 4)}),
    ("Identity", [(2, 6)], {}),
    ("Concat", [(2, 3), (2, 1)], {"axis": 1}),
    ("Pad", [(2, 3)], {"pads": (1, 0, 2, 1), "value": 7.0, "mode": "constant"}),
    ("ReduceSum", [(2, 3, 4)], {"axes": (0, 2), "keepdims": True}),
    ("ReduceMin", [(2, 3, 4)], {"axes": (1,), "keepdims": False}),
    ("MatMul", [(2, 1, 3, 4), (5, 4, 2)], {}),
]


@pytest.mark.parametrize(("op", "shapes", "attributes"), FORMS, ids=[op for op, *_ in FORMS])
def test_a_form_says_the_same(op: str, shapes: list[tuple[int, ...]], attributes: dict[str, Any]) -> None:
    arrays = [np.random.default_rng(seed).integers(-9, 9, shape) for seed, shape in enumerate(shapes)]
    form = generic_form(op, shapes, arrays[0].dtype, attributes)
    assert form is not None
    assert infer_shape(form[0], shapes, form[1]) == infer_shape(op, shapes, attributes)
    np.testing.assert_array_equal(compute(*form[:1], arrays, form[1]), compute(op, arrays, attributes))


def test_what_has_no_form() -> None:
    assert generic_form("Softmax", [(2, 3)], np.dtype(np.int32), {"axis": 1}) is None
    assert generic_form("Pad", [(3,)], np.dtype(np.int8), {"pads": (1, 1), "value": 0.0, "mode": "edge"}) is None
    assert generic_form("Add", [(3,), (3,)], np.dtype(np.int8), {"activation": "relu"}) is None


def test_every_generic_operator_has_a_case() -> None:
    assert {op for case in GENERIC_CASES for op in case.ops} == set(GENERIC_OPERATORS)


@pytest.mark.parametrize("case", GENERIC_CASES, ids=str)
def test_exported_and_read_back(case: GenericCase) -> None:
    make = case.graph()
    graph = make.graph
    check_graph(graph)
    again = import_onnx(export_onnx(graph))
    assert again.nodes == graph.nodes
    assert again.tensors == graph.tensors
    inputs = make.noise()
    for name in graph.outputs:
        found, expected = evaluate(again, inputs)[name], evaluate(graph, inputs)[name]
        assert found.dtype == expected.dtype == graph.tensors[name].dtype
        assert found.tobytes() == expected.tobytes()


@pytest.mark.parametrize(
    ("op", "shapes", "attributes", "text"),
    [
        ("Strided", [(4,)], {"shape": (3,), "strides": (2,), "offset": 0}, "a view of .* leaves an input"),
        ("Strided", [(4,)], {"shape": (3,), "strides": (-1,), "offset": 1}, "a view of .* leaves an input"),
        ("Strided", [(4,)], {"shape": (3, 1), "strides": (1,), "offset": 0}, "one each, at least 1, is needed"),
        ("Join", [(2, 3), (3, 3)], {"axis": 1}, "do not concatenate"),
        ("Embedding", [(3,)], {"shape": (4,), "starts": (2,), "steps": (1,), "value": 0.0}, "does not lie within"),
        ("Sorting", [(3,)], {"axis": 0, "count": 4, "largest": True, "positions": False}, "4 elements of axis 0"),
        ("Cumulation", [(3,)], {"function": "sum", "axis": 1, "exclusive": False, "reverse": False}, "not an axis"),
    ],
)
def test_shapes_that_do_not_fit(op: str, shapes: list[tuple[int, ...]], attributes: dict[str, Any], text: str) -> None:
    with pytest.raises(ModelError, match=text):
        infer_shape(op, shapes, attributes)
