"""Attention and products of transposed matrices become operators that read where the elements lie."""

import numpy as np
import pytest

from runtime.convert import convert
from runtime.errors import ModelError
from runtime.graph import Graph, Node
from runtime.importers.onnx_importer import import_onnx
from runtime.operators.table import OPERATORS, infer_shape
from runtime.oracle.evaluate import evaluate
from runtime.passes.attention_fusion import fuse_attention
from runtime.passes.transpose_merging import absorb_transposed_operands
from tests.runtime.graphs import GraphMaker
from tests.runtime.onnx_models import inputs_of, one_op, random_array, run_onnxruntime
from tests.runtime.test_passes import applied, operators, unchanged
from tests.runtime.transformers import Size, Writer

BATCH, HEADS, PLACES, DEPTH = 2, 3, 5, 4


def split(make: GraphMaker, perm: tuple[int, ...] = (0, 2, 1, 3)) -> str:
    """Heads of an input whose places hold them side by side."""
    x = make.input(BATCH, PLACES, HEADS * DEPTH)
    return make.add("Transpose", make.add("Reshape", x, shape=(BATCH, PLACES, HEADS, DEPTH)), perm=perm)


def scores(make: GraphMaker) -> str:
    product = make.add("MatMul", split(make), split(make, (0, 2, 3, 1)))
    return make.add("Mul", product, make.constant(0.5))


def attend(make: GraphMaker, tensor: str) -> str:
    return make.add("MatMul", make.add("Softmax", tensor, axis=3), split(make))


def attention_of(graph: Graph) -> Node:
    (node,) = (node for node in graph.nodes if node.op == "Attention")
    return node


def test_heads_are_read_and_written_where_they_lie(make: GraphMaker) -> None:
    y = make.add("Transpose", attend(make, scores(make)), perm=(0, 2, 1, 3))
    graph = applied(fuse_attention, make, y)
    assert operators(graph) == ["Attention"]
    assert attention_of(graph).inputs == graph.inputs
    assert attention_of(graph).attrs["scale"] == 0.5


def test_queries_keys_and_values_in_one_tensor_are_read_there(make: GraphMaker) -> None:
    wide = make.add("Reshape", make.input(BATCH, PLACES, 3 * HEADS * DEPTH), shape=(BATCH, PLACES, 3, HEADS, DEPTH))
    stacked = make.add("Transpose", wide, perm=(2, 0, 3, 1, 4))
    parts = []
    for index in range(3):
        part = make.add("Slice", stacked, starts=(index,), ends=(index + 1,), axes=(0,), steps=(1,))
        parts.append(make.add("Reshape", part, shape=(BATCH, HEADS, PLACES, DEPTH)))
    product = make.add("MatMul", parts[0], make.add("Transpose", parts[1], perm=(0, 1, 3, 2)))
    graph = applied(fuse_attention, make, make.add("MatMul", make.add("Softmax", product, axis=3), parts[2]))
    assert operators(graph) == ["Attention"]
    assert attention_of(graph).attrs["offsets"] == (0, HEADS * DEPTH, 2 * HEADS * DEPTH)


def test_scales_of_queries_and_keys_join_the_scale(make: GraphMaker) -> None:
    q = make.add("Mul", split(make), make.constant(0.5))
    k = make.add("Div", split(make, (0, 2, 3, 1)), make.constant(4))
    graph = applied(fuse_attention, make, attend(make, make.add("MatMul", q, k)))
    assert operators(graph) == ["Attention"]
    assert attention_of(graph).attrs["scale"] == 0.125


@pytest.mark.parametrize("shape", [(PLACES,), (PLACES, PLACES), (BATCH, 1, 1, PLACES), (HEADS, 1, PLACES)], ids=str)
def test_a_mask_of_any_shape_that_broadcasts_is_read(make: GraphMaker, shape: tuple[int, ...]) -> None:
    graph = applied(fuse_attention, make, attend(make, make.add("Add", make.input(*shape), scores(make))))
    assert operators(graph) == ["Attention"]
    assert len(attention_of(graph).inputs) == 4


def test_a_mask_that_hides_what_follows_is_no_tensor(make: GraphMaker) -> None:
    hidden = make.constant(np.where(np.tri(PLACES, dtype=bool), 0, -np.inf))
    graph = applied(fuse_attention, make, attend(make, make.add("Add", scores(make), hidden)))
    assert attention_of(graph).attrs["causal"]
    assert len(attention_of(graph).inputs) == 3


def test_a_mask_that_only_lowers_what_follows_stays_a_tensor(make: GraphMaker) -> None:
    lowered = make.constant(np.where(np.tri(PLACES, dtype=bool), 0, -3))
    graph = applied(fuse_attention, make, attend(make, make.add("Add", scores(make), lowered)))
    assert not attention_of(graph).attrs["causal"]
    assert len(attention_of(graph).inputs) == 4


def test_a_mask_of_zeros_is_no_tensor(make: GraphMaker) -> None:
    graph = applied(fuse_attention, make, attend(make, make.add("Add", scores(make), make.constant(np.zeros(PLACES)))))
    assert len(attention_of(graph).inputs) == 3
    assert not attention_of(graph).attrs["causal"]


WHERE = {"function": "where", "dtype": "float32", "alpha": 0.0, "beta": 0.0}
IS_NAN = {"function": "is_nan", "dtype": "bool", "alpha": 0.0, "beta": 0.0}


def safe_weights(make: GraphMaker, tensor: str, instead: float = 0.0) -> str:
    """The softmax with another number where it is NaN, as PyTorch writes it."""
    weights = make.add("Softmax", tensor, axis=3)
    return make.add("Elementwise", make.add("Elementwise", weights, **IS_NAN), make.constant(instead), weights, **WHERE)


HIDDEN_ROW = np.where(np.arange(PLACES)[:, None] == 2, -np.inf, 0) * np.ones(PLACES)
MASKS: dict[str, tuple[np.ndarray | None, bool]] = {
    "none": (None, False),
    "causal": (np.where(np.tri(PLACES, dtype=bool), 0, -np.inf), False),
    "some keys of each query": (np.where(np.arange(PLACES) == 2, -np.inf, 0), False),
    "finite in a whole row": (np.maximum(HIDDEN_ROW, -3e38), False),
    "infinite in a whole row": (HIDDEN_ROW, True),
    "NaN": (np.where(HIDDEN_ROW < 0, np.nan, 0), True),
}


@pytest.mark.parametrize("mask", MASKS)
def test_weights_that_may_be_nan_are_made_0_where_a_mask_hides_all_keys(make: GraphMaker, mask: str) -> None:
    value, safe = MASKS[mask]
    tensor = scores(make)
    tensor = tensor if value is None else make.add("Add", tensor, make.constant(value))
    graph = applied(fuse_attention, make, make.add("MatMul", safe_weights(make, tensor), split(make)))
    assert operators(graph) == ["Attention"]
    assert attention_of(graph).attrs["safe"] == safe
    assert not np.isnan(evaluate(graph, make.noise())[graph.outputs[0]]).any()


def test_a_mask_that_a_run_tells_may_hide_all_keys(make: GraphMaker) -> None:
    tensor = make.add("Add", scores(make), make.input(PLACES, PLACES))
    graph = applied(fuse_attention, make, make.add("MatMul", safe_weights(make, tensor), split(make)))
    assert attention_of(graph).attrs["safe"]


def test_another_number_instead_of_nan_stays(make: GraphMaker) -> None:
    unchanged(fuse_attention, make, make.add("MatMul", safe_weights(make, scores(make), 0.5), split(make)))


def test_a_choice_by_other_weights_that_are_nan_stays(make: GraphMaker) -> None:
    weights, other = (make.add("Softmax", scores(make), axis=3) for _ in range(2))
    test = make.add("Elementwise", other, **IS_NAN)
    kept = make.add("Elementwise", test, make.constant(0), weights, **WHERE)
    unchanged(fuse_attention, make, make.add("MatMul", kept, split(make)))


def test_weights_made_safe_that_something_else_reads_stay(make: GraphMaker) -> None:
    weights = make.add("Softmax", scores(make), axis=3)
    kept = make.add("Elementwise", make.add("Elementwise", weights, **IS_NAN), make.constant(0), weights, **WHERE)
    unchanged(fuse_attention, make, make.add("MatMul", kept, split(make)), weights)


ONNX_ATTENTION: dict[str, dict[str, object]] = {
    **{"plain": {}, "causal": {"is_causal": 1}, "scaled": {"scale": 0.25}},
    **{"masked": {}, "hidden": {"is_causal": 1}},
}


@pytest.mark.parametrize("form", ONNX_ATTENTION)
def test_attention_as_onnx_defines_it_is_one_operator(form: str) -> None:
    masks = {"mask": (2, 1, 5, 5)} if form in ("masked", "hidden") else {}
    shapes = {"q": (2, 3, 5, 8), "k": (2, 3, 5, 8), "v": (2, 3, 5, 8), **masks}
    model = one_op("Attention", shapes, opset=23, **ONNX_ATTENTION[form])
    inputs = {name: random_array(shape, index) for index, (name, shape) in enumerate(shapes.items())}
    if form == "hidden":
        inputs["mask"][1, 0, 2] = -np.inf
    graph, _ = convert(model)
    assert [op for op in operators(graph) if op != "Add"] == ["Attention"]
    expected = evaluate(import_onnx(model), inputs)["y"]
    np.testing.assert_allclose(evaluate(graph, inputs)["y"], expected, rtol=1e-5, atol=1e-6)


def chosen(make: GraphMaker, condition: np.ndarray, value: float) -> str:
    """Scores where a constant condition holds, else a number."""
    name = make.graph.add_constant("condition", condition)
    return make.add("Elementwise", name, scores(make), make.constant(value), **WHERE)


@pytest.mark.parametrize(
    ("condition", "value"), [(np.arange(PLACES) != 2, -1e9), (np.zeros(PLACES, bool), -np.inf)], ids=["some", "all"]
)
def test_a_constant_choice_of_scores_is_a_mask(make: GraphMaker, condition: np.ndarray, value: float) -> None:
    graph = applied(fuse_attention, make, attend(make, chosen(make, condition, value)))
    assert operators(graph) == ["Attention"]
    assert len(attention_of(graph).inputs) == 4


@pytest.mark.parametrize(
    ("condition", "value"), [(np.arange(PLACES) != 2, -1.0), (np.zeros(PLACES, bool), -1e9)], ids=["small", "all"]
)
def test_a_choice_that_leaves_weight_stays(make: GraphMaker, condition: np.ndarray, value: float) -> None:
    unchanged(fuse_attention, make, attend(make, chosen(make, condition, value)))


def test_scores_that_are_an_output_stay(make: GraphMaker) -> None:
    tensor = scores(make)
    unchanged(fuse_attention, make, attend(make, tensor), tensor)


def test_weights_that_something_else_reads_stay(make: GraphMaker) -> None:
    weights = make.add("Softmax", scores(make), axis=3)
    y = make.add("MatMul", weights, split(make))
    unchanged(fuse_attention, make, y, make.add("Neg", weights))


def test_a_softmax_of_another_axis_stays(make: GraphMaker) -> None:
    weights = make.add("Softmax", scores(make), axis=2)
    unchanged(fuse_attention, make, make.add("MatMul", weights, split(make)))


def test_heads_of_more_elements_than_fit_stay(make: GraphMaker) -> None:
    q, k, v = make.input(3, 300), make.input(300, 4), make.input(4, 5)
    unchanged(fuse_attention, make, make.add("MatMul", make.add("Softmax", make.add("MatMul", q, k), axis=1), v))


def test_a_single_head_without_a_batch_is_attention_too(make: GraphMaker) -> None:
    q, k, v = make.input(3, 8), make.input(8, 4), make.input(4, 5)
    y = make.add("MatMul", make.add("Softmax", make.add("MatMul", q, k), axis=1), v)
    assert operators(applied(fuse_attention, make, y)) == ["Attention"]


def test_a_transposition_behind_that_something_else_needs_stays(make: GraphMaker) -> None:
    values = attend(make, scores(make))
    graph = applied(fuse_attention, make, make.add("Transpose", values, perm=(0, 2, 1, 3)), values)
    assert operators(graph) == ["Attention", "Transpose"]


def test_attention_with_a_loop_outside_its_tensor_is_refused(make: GraphMaker) -> None:
    graph = applied(fuse_attention, make, attend(make, scores(make)))
    node = attention_of(graph)
    shapes = [graph.shape(name) for name in node.inputs]
    with pytest.raises(ModelError, match="leave k of shape"):
        infer_shape("Attention", shapes, node.attrs | {"offsets": (0, 1, 0)})
    with pytest.raises(ModelError, match="do not fill an output"):
        infer_shape("Attention", shapes, node.attrs | {"y_strides": (1, 1, 1, 1)})
    assert OPERATORS["Attention"].attributes.keys() == node.attrs.keys()


# Transposed operands


def test_a_transposed_right_operand_is_read_where_it_lies(make: GraphMaker) -> None:
    a, b = make.input(2, 3, 5, 4), make.input(2, 3, 7, 4)
    y = make.add("MatMul", a, make.add("Transpose", b, perm=(0, 1, 3, 2)))
    graph = applied(absorb_transposed_operands, make, y)
    assert operators(graph) == ["StridedProduct"]
    assert graph.nodes[0].inputs == [a, b]


def test_heads_of_both_operands_are_read_where_they_lie(make: GraphMaker) -> None:
    y = make.add("MatMul", split(make), split(make, (0, 2, 3, 1)))
    assert operators(applied(absorb_transposed_operands, make, y)) == ["StridedProduct"]


def test_a_left_operand_whose_rows_would_fall_apart_stays(make: GraphMaker) -> None:
    a = make.add("Transpose", make.input(4, 5), perm=(1, 0))
    unchanged(absorb_transposed_operands, make, make.add("MatMul", a, make.input(4, 3)))


def test_a_right_operand_that_repeats_keeps_doing_so(make: GraphMaker) -> None:
    b = make.add("Transpose", make.input(1, 7, 4), perm=(0, 2, 1))
    graph = applied(absorb_transposed_operands, make, make.add("MatMul", make.input(3, 5, 4), b))
    assert operators(graph) == ["StridedProduct"]


GROUPS, MEMBERS, HEAD_DEPTH, KEYS = 2, 3, 4, 7
SIZE = Size(KEYS, GROUPS * MEMBERS * HEAD_DEPTH, GROUPS * MEMBERS)


def repeated(writer: Writer, name: str, batch: int, repeats: int = MEMBERS) -> str:
    """Every head of an input (batch, KEYS, GROUPS * DEPTH) `repeats` times, as frameworks write it."""
    split = writer.op("Transpose", writer.reshape(name, batch, KEYS, GROUPS, HEAD_DEPTH), perm=[0, 2, 1, 3])
    single = writer.reshape(split, batch, GROUPS, 1, KEYS, HEAD_DEPTH)
    expanded = writer.op("Expand", single, writer.constant(np.array([1, 1, repeats, 1, 1])))
    return writer.reshape(expanded, batch, GROUPS * repeats, KEYS, HEAD_DEPTH)


def converted(queries: int, mask: str = "", matrices: bool = False, batch: int = 1) -> Graph:
    """The graph of such attention, which computes what ONNX Runtime does.

    `matrices`: keys are transposed as a batch of matrices, as PyTorch writes it.
    """
    writer = Writer("operators", SIZE)
    q = writer.op("Transpose", writer.reshape("q", batch, queries, SIZE.heads, HEAD_DEPTH), perm=[0, 2, 1, 3])
    k = repeated(writer, "k", batch)
    if matrices:
        k = writer.op("Transpose", writer.reshape(k, batch * SIZE.heads, KEYS, HEAD_DEPTH), perm=[0, 2, 1])
        k = writer.reshape(k, batch, SIZE.heads, HEAD_DEPTH, KEYS)
    else:
        k = writer.op("Transpose", k, perm=[0, 1, 3, 2])
    scores = writer.scaled(writer.op("MatMul", q, k), 0.5)
    inputs = {"q": (batch, queries, SIZE.width), **dict.fromkeys("kv", (batch, KEYS, GROUPS * HEAD_DEPTH))}
    if mask == "input":
        inputs["mask"] = (batch, SIZE.heads, queries, KEYS)
        scores = writer.op("Add", scores, "mask")
    elif mask == "causal":
        hidden = np.where(np.tri(queries, KEYS, dtype=bool), 0.0, np.finfo(np.float32).min)
        scores = writer.op("Add", scores, writer.constant(hidden))
    values = writer.op("MatMul", writer.op("Softmax", scores, axis=-1), repeated(writer, "v", batch))
    y = writer.op("Transpose", values, perm=[0, 2, 1, 3])
    model = writer.model(inputs, y)
    graph, _ = convert(model)
    values_of_inputs = inputs_of(graph)
    (expected,) = run_onnxruntime(model, values_of_inputs)
    np.testing.assert_allclose(evaluate(graph, values_of_inputs)[graph.outputs[0]], expected, atol=1e-5)
    return graph


@pytest.mark.parametrize("mask", ["", "input", "causal"])
@pytest.mark.parametrize("queries", [1, 5])
@pytest.mark.parametrize("matrices", [False, True])
@pytest.mark.parametrize("batch", [1, 2])
def test_nothing_is_copied_for_shared_heads(queries: int, mask: str, matrices: bool, batch: int) -> None:
    graph = converted(queries, mask, matrices, batch)
    (node,) = graph.nodes
    assert (node.op, node.inputs[:3]) == ("Attention", ["q", "k", "v"])


def test_heads_of_one_query_are_queries_of_one_head() -> None:
    (node,) = converted(1).nodes
    assert node.attrs["extents"] == (1, GROUPS, MEMBERS, KEYS, HEAD_DEPTH, HEAD_DEPTH)


def test_heads_of_several_queries_stay_heads_of_their_group() -> None:
    (node,) = converted(5).nodes
    assert node.attrs["extents"] == (1, GROUPS * MEMBERS, 5, KEYS, HEAD_DEPTH, HEAD_DEPTH)
    assert node.attrs["members"] == MEMBERS
