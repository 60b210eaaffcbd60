"""Rotary positions become one operator, in whatever form they are written, which reads heads where they lie."""

from __future__ import annotations

import numpy as np
import pytest

from runtime.convert import convert
from runtime.errors import ModelError
from runtime.graph import Graph
from runtime.importers.onnx_importer import import_onnx
from runtime.operators.table import infer_shape
from runtime.oracle.evaluate import evaluate
from tests.runtime.onnx_models import inputs_of, one_op, random_array, run_onnxruntime
from tests.runtime.transformers import Size, Writer

PLACES, HEADS, DEPTH = 5, 3, 8
HALF = DEPTH // 2
SHAPE = (1, PLACES, HEADS * DEPTH)


def angles(writer: Writer, size: int) -> list[str]:
    table = np.arange(PLACES)[:, None] * 0.9 ** np.arange(HALF)
    return [writer.constant(np.tile(function(table), size // HALF)) for function in (np.cos, np.sin)]


def halves(writer: Writer, x: str) -> list[str]:
    bounds = ((0, HALF), (HALF, DEPTH))
    return [writer.op("Slice", x, *(writer.constant(np.array([v])) for v in (*pair, 3))) for pair in bounds]


def whole(writer: Writer, x: str) -> str:
    """x cos + (-high, low) sin."""
    cos, sin = angles(writer, DEPTH)
    low, high = halves(writer, x)
    turned = writer.op("Concat", writer.op("Neg", high), low, axis=-1)
    return writer.op("Add", writer.op("Mul", x, cos), writer.op("Mul", turned, sin))


def by_halves(writer: Writer, x: str, last: str = "Add") -> str:
    """(low cos - high sin, high cos + low sin)."""
    cos, sin = angles(writer, HALF)
    low, high = halves(writer, x)
    first = writer.op("Sub", writer.op("Mul", low, cos), writer.op("Mul", sin, high))
    return writer.op("Concat", first, writer.op(last, writer.op("Mul", low, sin), writer.op("Mul", high, cos)), axis=-1)


FORMS = {"whole": whole, "halves": by_halves, "others": lambda writer, x: by_halves(writer, x, "Sub")}


@pytest.fixture(params=FORMS)
def graph(request: pytest.FixtureRequest) -> Graph:
    """The graph of a form, which computes what ONNX Runtime does."""
    writer = Writer("operators", Size())
    heads = writer.op("Transpose", writer.reshape("x", 1, PLACES, HEADS, DEPTH), perm=[0, 2, 1, 3])
    model = writer.model({"x": SHAPE}, FORMS[request.param](writer, heads))
    made, _ = convert(model)
    made.name = request.param
    inputs = inputs_of(made)
    (expected,) = run_onnxruntime(model, inputs)
    np.testing.assert_allclose(evaluate(made, inputs)[made.outputs[0]], expected, atol=1e-6)
    return made


def test_they_are_one_operator_that_reads_heads_where_they_lie(graph: Graph) -> None:
    found = [node.op for node in graph.nodes]
    assert (found == ["Rotary"]) == (graph.name != "others"), found
    if found == ["Rotary"]:
        assert graph.nodes[0].inputs[0] == "x"
        assert graph.nodes[0].attrs["strides"][1:] == (DEPTH, HEADS * DEPTH, 1)


@pytest.mark.parametrize("width", [0, HALF])
def test_what_onnx_defines_is_one_operator(width: int) -> None:
    """All of a head, or its first elements, which others follow."""
    turned = width or DEPTH
    shapes = {"x": (1, HEADS, PLACES, DEPTH), **dict.fromkeys(("cos", "sin"), (1, PLACES, turned // 2))}
    model = one_op("RotaryEmbedding", shapes, opset=23, **({"rotary_embedding_dim": width} if width else {}))
    inputs = {name: random_array(shape, index) for index, (name, shape) in enumerate(shapes.items())}
    graph, _ = convert(model)
    assert "Rotary" in {node.op for node in graph.nodes}
    np.testing.assert_allclose(evaluate(graph, inputs)["y"], evaluate(import_onnx(model), inputs)["y"], atol=1e-6)


def test_rows_and_angles_that_do_not_fit_are_refused() -> None:
    attributes = {"shape": (2, 3, 8), "strides": (24, 8, 1), "offset": 0}
    table = (3, 8)
    assert infer_shape("Rotary", [(2, 24), table, (4,)], attributes) == (2, 3, 8)
    with pytest.raises(ModelError, match=r"angles of shape \(3, 5\)"):
        infer_shape("Rotary", [(2, 24), table, (3, 5)], attributes)
    with pytest.raises(ModelError, match="the last even"):
        infer_shape("Rotary", [(2, 24), table, table], attributes | {"shape": (2, 3, 7)})
    with pytest.raises(ModelError, match="leaves an input"):
        infer_shape("Rotary", [(2, 24), table, table], attributes | {"offset": 1})
