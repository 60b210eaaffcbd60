"""Normalisations and gated activations that frameworks write out become one operator, and compute the same."""

import math

import numpy as np
import pytest

from runtime.convert import convert
from runtime.errors import ModelError
from runtime.graph import Graph
from runtime.importers.onnx_importer import import_onnx
from runtime.operators.table import check_graph, infer_shape
from runtime.oracle.evaluate import evaluate
from runtime.passes.gated_activations import fuse_gated_activations
from runtime.passes.normalization_fusion import fold_normalization_scales, fuse_normalizations
from runtime.passes.pipeline import run_passes
from tests.runtime.graphs import GraphMaker
from tests.runtime.onnx_models import inputs_of, one_op, random_array, run_onnxruntime
from tests.runtime.test_passes import applied, operators, unchanged
from tests.runtime.transformers import Size, Writer


def scaled(make: GraphMaker, x: str, factor: float) -> str:
    return make.add("Mul", x, make.constant(factor))


def converted(make: GraphMaker, *outputs: str) -> Graph:
    """Runs all passes, and compares every output."""
    graph = make.finish(*outputs)
    inputs = make.noise()
    before = evaluate(graph, inputs)
    run_passes(graph)
    check_graph(graph)
    after = evaluate(graph, inputs)
    for name in outputs:
        np.testing.assert_allclose(after[name], before[name], rtol=1e-4, atol=1e-5)
    return graph


# Gelu, Swish, Mish


def erf_gate(make: GraphMaker, x: str) -> str:
    return make.add("Add", make.add("Erf", make.add("Div", x, make.constant(math.sqrt(2)))), make.constant(1))


def tanh_gate(make: GraphMaker, x: str, cube: str) -> str:
    inner = make.add("Add", x, scaled(make, cube, 0.044715))
    return make.add("Add", make.constant(1), make.add("Tanh", scaled(make, inner, math.sqrt(2 / math.pi))))


def test_gelu_as_pytorch_exports_it_is_one_operator(make: GraphMaker) -> None:
    x = make.input(2, 5)
    y = scaled(make, make.add("Mul", x, erf_gate(make, x)), 0.5)
    assert operators(applied(fuse_gated_activations, make, y)) == ["Gelu"]


def test_gelu_as_onnx_defines_it_is_one_operator(make: GraphMaker) -> None:
    x = make.input(2, 5)
    y = make.add("Mul", x, scaled(make, erf_gate(make, x), 0.5))
    assert operators(applied(fuse_gated_activations, make, y)) == ["Gelu"]


def test_gelu_by_tanh_with_a_power_is_one_operator(make: GraphMaker) -> None:
    x = make.input(2, 5)
    gate = tanh_gate(make, x, make.add("Pow", x, make.constant(3)))
    assert operators(applied(fuse_gated_activations, make, make.add("Mul", scaled(make, x, 0.5), gate))) == ["GeluTanh"]


def test_gelu_by_tanh_with_products_is_one_operator(make: GraphMaker) -> None:
    x = make.input(2, 5)
    gate = tanh_gate(make, x, make.add("Mul", make.add("Mul", x, x), x))
    assert operators(applied(fuse_gated_activations, make, scaled(make, make.add("Mul", gate, x), 0.5))) == ["GeluTanh"]


def test_gelu_by_tanh_with_x_taken_out_is_one_operator(make: GraphMaker) -> None:
    x = make.input(2, 5)
    square = make.add("Add", scaled(make, make.add("Mul", x, x), 0.044715), make.constant(1))
    inner = scaled(make, make.add("Mul", x, square), math.sqrt(2 / math.pi))
    gate = make.add("Add", make.add("Tanh", inner), make.constant(1))
    assert operators(applied(fuse_gated_activations, make, make.add("Mul", scaled(make, x, 0.5), gate))) == ["GeluTanh"]


@pytest.mark.parametrize("slope", [1.0, 1.702])
def test_swish_keeps_its_slope(make: GraphMaker, slope: float) -> None:
    x = make.input(2, 5)
    argument = x if slope == 1 else scaled(make, x, slope)
    graph = applied(fuse_gated_activations, make, make.add("Mul", x, make.add("Sigmoid", argument)))
    assert operators(graph) == ["Swish"]
    assert graph.nodes[0].attrs["alpha"] == pytest.approx(slope)


def test_mish_is_one_operator(make: GraphMaker) -> None:
    x = make.input(2, 5)
    y = make.add("Mul", x, make.add("Tanh", make.add("Softplus", x)))
    assert operators(applied(fuse_gated_activations, make, y)) == ["Mish"]


def test_a_gate_of_another_tensor_stays(make: GraphMaker) -> None:
    x, other = make.input(2, 5), make.input(2, 5)
    unchanged(fuse_gated_activations, make, make.add("Mul", x, make.add("Sigmoid", other)))


def test_a_gelu_with_another_constant_stays(make: GraphMaker) -> None:
    x = make.input(2, 5)
    unchanged(fuse_gated_activations, make, scaled(make, make.add("Mul", x, erf_gate(make, x)), 0.51))


def test_a_gate_that_is_an_output_stays(make: GraphMaker) -> None:
    x = make.input(2, 5)
    gate = make.add("Sigmoid", x)
    unchanged(fuse_gated_activations, make, make.add("Mul", x, gate), gate)


def test_gelu_becomes_the_activation_of_a_layer(make: GraphMaker) -> None:
    x = make.add("FullyConnected", make.input(2, 5), make.weights(7, 5), make.weights(7))
    graph = converted(make, scaled(make, make.add("Mul", x, erf_gate(make, x)), 0.5))
    assert operators(graph) == ["FullyConnected"]
    assert graph.nodes[0].attrs["activation"] == "gelu"


# Normalisations


def moments(make: GraphMaker, x: str, axes: tuple[int, ...], power: bool = True) -> tuple[str, str]:
    """x - mean, and variance + epsilon."""
    centred = make.add("Sub", x, make.add("ReduceMean", x, axes=axes, keepdims=True))
    square = make.add("Pow", centred, make.constant(2)) if power else make.add("Mul", centred, centred)
    variance = make.add("ReduceMean", square, axes=axes, keepdims=True)
    return centred, make.add("Add", variance, make.constant(1e-3))


def test_layer_normalisation_as_pytorch_exports_it_is_one_operator(make: GraphMaker) -> None:
    x = make.input(2, 3, 8)
    centred, total = moments(make, x, (2,))
    normalised = make.add("Div", centred, make.add("Sqrt", total))
    y = make.add("Add", make.add("Mul", normalised, make.weights(8)), make.weights(8))
    graph = converted(make, y)
    assert operators(graph) == ["LayerNormalization"]
    assert len(graph.nodes[0].inputs) == 3


def test_an_inverse_deviation_as_a_power_is_read(make: GraphMaker) -> None:
    centred, total = moments(make, make.input(2, 3, 8), (1, 2), power=False)
    inverse = make.add("Pow", total, make.constant(-0.5))
    assert operators(applied(fuse_normalizations, make, make.add("Mul", centred, inverse))) == ["LayerNormalization"]


@pytest.mark.parametrize(
    ("negated", "is_scaled", "is_shifted"),
    [(False, True, True), (True, True, True), (True, False, True), (True, True, False), (True, False, False)],
)
def test_layer_normalisation_as_tensorflow_exports_it_is_one_operator(
    make: GraphMaker, negated: bool, is_scaled: bool, is_shifted: bool
) -> None:
    """What scales by one or shifts by zero was left out by TensorFlow."""
    x = make.input(2, 3, 8)
    mean = make.add("ReduceMean", x, axes=(2,), keepdims=True)
    difference = make.add("Sub", x, mean)
    variance = make.add("ReduceMean", make.add("Mul", difference, difference), axes=(2,), keepdims=True)
    deviation = make.add("Sqrt", make.add("Add", variance, make.constant(1e-3)))
    factor = make.add("Reciprocal", deviation)
    factor = make.add("Mul", factor, make.weights(8)) if is_scaled else factor
    shift = make.weights(8)
    if negated:
        rest = make.add("Mul", make.add("Neg", mean), factor)
        rest = make.add("Add", rest, shift) if is_shifted else rest
    else:
        rest = make.add("Sub", shift, make.add("Mul", mean, factor))
    graph = converted(make, make.add("Add", make.add("Mul", x, factor), rest))
    assert operators(graph) == ["LayerNormalization"]


def test_root_mean_square_normalisation_is_one_operator(make: GraphMaker) -> None:
    x = make.input(2, 3, 8)
    mean = make.add("ReduceMean", make.add("Pow", x, make.constant(2)), axes=(2,), keepdims=True)
    inverse = make.add("Reciprocal", make.add("Sqrt", make.add("Add", mean, make.constant(1e-6))))
    graph = converted(make, make.add("Mul", make.weights(8), make.add("Mul", x, inverse)))
    assert operators(graph) == ["LayerNormalization"]
    assert not graph.nodes[0].attrs["centered"]


def test_a_normalisation_of_height_and_width_is_one_of_instances(make: GraphMaker) -> None:
    centred, total = moments(make, make.input(2, 3, 4, 5), (2, 3))
    normalised = make.add("Div", centred, make.add("Sqrt", total))
    graph = converted(make, make.add("Add", normalised, make.weights(3, 1, 1)))
    assert operators(graph) == ["GroupNormalization"]
    assert graph.nodes[0].attrs["groups"] == 3


def test_a_normalisation_of_an_images_channels_is_one_operator(make: GraphMaker) -> None:
    centred, total = moments(make, make.input(2, 6, 4, 5), (1,))
    normalised = make.add("Div", centred, make.add("Sqrt", total))
    graph = converted(make, make.add("Mul", normalised, make.weights(1, 6, 1, 1)))
    assert operators(graph) == ["LayerNormalization"]
    assert graph.nodes[0].attrs["axes"] == (1,)


def test_a_normalisation_of_other_axes_stays(make: GraphMaker) -> None:
    centred, total = moments(make, make.input(2, 6, 4, 5), (0, 2))
    unchanged(fuse_normalizations, make, make.add("Div", centred, make.add("Sqrt", total)))


def test_a_deviation_of_another_tensor_stays(make: GraphMaker) -> None:
    centred, _ = moments(make, make.input(2, 6), (1,))
    _, total = moments(make, make.input(2, 6), (1,))
    y = make.add("Div", centred, make.add("Sqrt", total))
    assert "LayerNormalization" not in operators(applied(fuse_normalizations, make, y))


def test_an_intermediate_that_is_an_output_stays_one(make: GraphMaker) -> None:
    centred, total = moments(make, make.input(2, 6), (1,))
    y = make.add("Div", centred, make.add("Sqrt", total))
    graph = applied(fuse_normalizations, make, y, total)
    assert operators(graph).count("LayerNormalization") == 1
    assert total in graph.outputs and graph.producer(total) is not None


def test_a_scale_along_another_axis_stays(make: GraphMaker) -> None:
    normalised = make.add("LayerNormalization", make.input(2, 3, 8), axes=(2,), epsilon=0.1, centered=True)
    unchanged(fold_normalization_scales, make, make.add("Mul", normalised, make.weights(3, 1)))


def test_a_normalisation_that_is_an_output_keeps_its_scale_apart(make: GraphMaker) -> None:
    normalised = make.add("LayerNormalization", make.input(2, 8), axes=(1,), epsilon=0.1, centered=True)
    unchanged(fold_normalization_scales, make, make.add("Mul", normalised, make.weights(8)), normalised)


def test_scales_and_shifts_in_a_row_are_all_folded(make: GraphMaker) -> None:
    y = make.add("LayerNormalization", make.input(2, 8), axes=(1,), epsilon=0.1, centered=True)
    y = make.add("Sub", make.add("Mul", y, make.weights(8)), make.weights(8))
    y = make.add("Mul", make.weights(), y)
    graph = applied(fold_normalization_scales, make, y)
    assert operators(graph) == ["LayerNormalization"]


@pytest.mark.parametrize("scaled_groups", [False, True])
def test_a_group_normalisation_as_pytorch_exports_it_is_one_operator(make: GraphMaker, scaled_groups: bool) -> None:
    grouped = make.add("Reshape", make.input(2, 6, 4, 5), shape=(2, 3, 40))
    factors = [make.weights(3), make.weights(3)] if scaled_groups else []
    y = make.add("GroupNormalization", grouped, *factors, groups=3, epsilon=0.1)
    y = make.add("Mul", make.add("Reshape", y, shape=(2, 6, 4, 5)), make.weights(6, 1, 1))
    graph = converted(make, make.add("Add", y, make.weights(6, 1, 1)))
    assert operators(graph) == ["GroupNormalization"]
    assert graph.nodes[0].attrs["groups"] == 3


def test_groups_that_are_no_runs_of_channels_stay(make: GraphMaker) -> None:
    grouped = make.add("Reshape", make.input(2, 6, 4, 5), shape=(2, 4, 30))
    y = make.add("GroupNormalization", grouped, groups=4, epsilon=0.1)
    unchanged(fold_normalization_scales, make, make.add("Reshape", y, shape=(2, 6, 4, 5)))


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
