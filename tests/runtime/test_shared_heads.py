"""Attention whose heads of queries share keys and values reads these once, wherever they lie."""

from __future__ import annotations

import numpy as np
import pytest

from runtime.convert import convert
from runtime.graph import Graph
from runtime.oracle.evaluate import evaluate
from tests.runtime.onnx_models import inputs_of, run_onnxruntime
from tests.runtime.transformers import Size, Writer

GROUPS, MEMBERS, DEPTH, KEYS = 2, 3, 4, 7
SIZE = Size(KEYS, GROUPS * MEMBERS * DEPTH, GROUPS * MEMBERS)


def repeated(writer: Writer, name: str, repeats: int = MEMBERS) -> str:
    """Every head of an input (1, KEYS, GROUPS * DEPTH) `repeats` times, as frameworks write it."""
    split = writer.op("Transpose", writer.reshape(name, 1, KEYS, GROUPS, DEPTH), perm=[0, 2, 1, 3])
    single = writer.reshape(split, 1, GROUPS, 1, KEYS, DEPTH)
    expanded = writer.op("Expand", single, writer.constant(np.array([1, 1, repeats, 1, 1])))
    return writer.reshape(expanded, 1, GROUPS * repeats, KEYS, DEPTH)


def converted(queries: int, mask: str = "") -> Graph:
    """The graph of such attention, which computes what ONNX Runtime does."""
    writer = Writer("operators", SIZE)
    q = writer.op("Transpose", writer.reshape("q", 1, queries, SIZE.heads, DEPTH), perm=[0, 2, 1, 3])
    k = writer.op("Transpose", repeated(writer, "k"), perm=[0, 1, 3, 2])
    scores = writer.scaled(writer.op("MatMul", q, k), 0.5)
    inputs = {"q": (1, queries, SIZE.width), "k": (1, KEYS, GROUPS * DEPTH), "v": (1, KEYS, GROUPS * DEPTH)}
    if mask == "input":
        inputs["mask"] = (1, SIZE.heads, queries, KEYS)
        scores = writer.op("Add", scores, "mask")
    elif mask == "causal":
        hidden = np.where(np.tri(queries, KEYS, dtype=bool), 0.0, np.finfo(np.float32).min)
        scores = writer.op("Add", scores, writer.constant(hidden))
    values = writer.op("MatMul", writer.op("Softmax", scores, axis=-1), repeated(writer, "v"))
    y = writer.op("Transpose", values, perm=[0, 2, 1, 3])
    model = writer.model(inputs, y)
    graph, _ = convert(model)
    values_of_inputs = inputs_of(graph)
    (expected,) = run_onnxruntime(model, values_of_inputs)
    np.testing.assert_allclose(evaluate(graph, values_of_inputs)[graph.outputs[0]], expected, atol=1e-5)
    return graph


@pytest.mark.parametrize("mask", ["", "input", "causal"])
@pytest.mark.parametrize("queries", [1, 5])
def test_nothing_is_copied_for_shared_heads(queries: int, mask: str) -> None:
    graph = converted(queries, mask)
    (node,) = graph.nodes
    assert (node.op, node.inputs[:3]) == ("Attention", ["q", "k", "v"])


def test_heads_of_one_query_are_queries_of_one_head() -> None:
    (node,) = converted(1).nodes
    assert node.attrs["extents"] == (1, GROUPS, MEMBERS, KEYS, DEPTH, DEPTH)


def test_heads_of_several_queries_stay_heads_of_their_group() -> None:
    (node,) = converted(5).nodes
    assert node.attrs["extents"] == (GROUPS, MEMBERS, 5, KEYS, DEPTH, DEPTH)
    assert node.attrs["k_strides"][1] == 0
