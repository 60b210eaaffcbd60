"""Each pass makes of a graph what it should, leaves alone what it must not touch, and changes no value."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from runtime.graph import Graph
from runtime.operators.table import check_graph
from runtime.oracle.evaluate import evaluate
from runtime.passes.affine import fold_batch_norms, fuse_biases
from runtime.passes.attention_sharing import join_products
from runtime.passes.fully_connected import convert_fully_connected
from runtime.passes.fusion import fuse_activations, fuse_pads, fuse_residuals
from runtime.passes.gated_activations import fuse_gated_activations
from runtime.passes.simplification import fold_constants, merge_reshapes, remove_dead_code, remove_identities
from runtime.passes.squeeze_movement import move_squeezes
from runtime.passes.transpose_merging import fuse_rearrangements, merge_transposes
from runtime.semantics import unary
from runtime.semantics.shape_functions import Shape
from runtime.semantics.unary import Unary
from tests.runtime.graphs import GraphMaker, operators

Pass = Callable[[Graph], list[str]]
LOWEST = float(np.finfo(np.float32).min)
CLIP6 = {"alpha": 0.0, "beta": 6.0}
GATE = {"alpha": 1 / 6, "beta": 0.5}


def applied(rewrite: Pass, make: GraphMaker, *outputs: str) -> Graph:
    """Runs one pass, then dead code; checks the graph's rules, its outputs' names and every value of theirs."""
    graph = make.finish(*outputs)
    check_graph(graph)
    inputs = make.noise()
    before = evaluate(graph, inputs)
    rewrite(graph)
    remove_dead_code(graph)
    check_graph(graph)
    assert graph.outputs == list(outputs)
    after = evaluate(graph, inputs)
    for name in outputs:
        np.testing.assert_allclose(after[name], before[name], rtol=1e-4, atol=1e-5)
    return graph


def unchanged(rewrite: Pass, make: GraphMaker, *outputs: str) -> None:
    expected = [node.op for node in make.graph.nodes]
    assert operators(applied(rewrite, make, *outputs)) == expected


# Constant folding, identities, dead code


def test_operators_of_constants_become_constants(make: GraphMaker) -> None:
    x = make.input(2, 3)
    product = make.add("Mul", make.weights(3), make.weights(3))
    y = make.add("Add", x, make.add("Neg", product))
    graph = applied(fold_constants, make, y)
    assert operators(graph) == ["Add"]
    assert len(graph.constants) == 1


def test_a_constant_output_keeps_its_name(make: GraphMaker) -> None:
    y = make.add("Neg", make.weights(3))
    graph = applied(fold_constants, make, y)
    assert graph.nodes == []
    assert graph.is_constant(y)


def identities(make: GraphMaker, x: str) -> list[str]:
    nothing = {"pads": (0,) * 8, "value": 0.0, "mode": "constant"}
    return [
        make.add("Identity", x),
        make.add("Pad", x, **nothing),
        make.add("Reshape", x, shape=make.graph.shape(x)),
        make.add("Transpose", x, perm=(0, 1, 2, 3)),
        make.add("Concat", x, axis=1),
    ]


@pytest.mark.parametrize("index", range(5))
def test_identities_are_removed(make: GraphMaker, index: int) -> None:
    x = make.add("Relu", make.input(1, 2, 3, 3))
    y = make.add("Neg", identities(make, x)[index])
    graph = applied(remove_identities, make, y)
    assert operators(graph) == ["Relu", "Neg"]


WHERE = {"function": "where", "dtype": "float32", "alpha": 0.0, "beta": 0.0}


def sums_and_choices(make: GraphMaker, x: str) -> list[str]:
    """Sums with zeros on either side, and choices of all elements, or of none."""
    zeros = make.graph.add_constant("zeros", np.zeros((2, 1), np.float32))
    truths = [make.graph.add_constant("truths", np.full((2, 3), value)) for value in (False, True)]
    sums = [make.add("Add", x, zeros), make.add("Add", zeros, x)]
    return [
        *sums,
        *(
            make.add("Elementwise", truth, *pair, **WHERE)
            for truth, pair in zip(truths, ([zeros, x], [x, zeros]), strict=True)
        ),
    ]


@pytest.mark.parametrize("index", range(4))
def test_sums_with_zeros_and_choices_of_everything_are_removed(make: GraphMaker, index: int) -> None:
    x = make.add("Relu", make.input(2, 3))
    graph = applied(remove_identities, make, make.add("Neg", sums_and_choices(make, x)[index]))
    assert operators(graph) == ["Relu", "Neg"]


def test_sums_and_choices_that_change_something_stay(make: GraphMaker) -> None:
    x, zeros = make.input(2, 3), make.graph.add_constant("zeros", np.zeros((4, 2, 3), np.float32))
    some = make.graph.add_constant("some", np.asarray([True, False, False]))
    wider = make.add("Add", x, zeros)
    activated = make.add("Add", x, make.graph.add_constant("zero", np.zeros(1, np.float32)), activation="relu")
    unchanged(remove_identities, make, wider, activated, make.add("Elementwise", some, x, zeros, **WHERE))


def test_an_identity_is_removed_and_the_outputs_name_kept(make: GraphMaker) -> None:
    hidden = make.add("Relu", make.input(2, 3))
    named = make.add("Identity", hidden)
    other = make.add("Neg", hidden)
    graph = applied(remove_identities, make, named, other)
    assert operators(graph) == ["Relu", "Neg"]


def test_identity_of_an_input_or_an_output_stays(make: GraphMaker) -> None:
    x = make.input(2, 3)
    hidden = make.add("Relu", x)
    unchanged(remove_identities, make, make.add("Identity", x), hidden, make.add("Identity", hidden))


def test_an_identity_stays_where_one_tensor_is_two_outputs(make: GraphMaker) -> None:
    hidden = make.add("Relu", make.input(2, 3))
    graph = applied(remove_identities, make, make.add("Identity", hidden), make.add("Identity", hidden))
    assert operators(graph) == ["Relu", "Identity"]


def test_dead_code_goes_with_its_constants(make: GraphMaker) -> None:
    x = make.input(1, 2, 4, 4)
    make.add("Relu", make.conv(x, 3))
    graph = applied(remove_dead_code, make, make.add("Neg", x))
    assert operators(graph) == ["Neg"]
    assert graph.constants == {}
    assert graph.tensors.keys() == {x, graph.outputs[0]}


# Batch norm and bias


def batch_norm(make: GraphMaker, x: str) -> str:
    channels = make.graph.shape(x)[1]
    return make.add("BatchNormalization", x, make.weights(channels), make.weights(channels))


def test_batch_norm_folds_into_convolution(make: GraphMaker) -> None:
    y = batch_norm(make, make.conv(make.input(2, 4, 5, 5), 6, group=2))
    graph = applied(fold_batch_norms, make, y)
    assert operators(graph) == ["Conv"]
    assert len(graph.nodes[0].inputs) == 3


def test_batch_norm_gives_a_bias_to_a_convolution_without(make: GraphMaker) -> None:
    x, w = make.input(1, 2, 5, 5), make.weights(3, 2, 1, 1)
    conv = make.add("Conv", x, w, strides=(2, 2), pads=(0, 0, 0, 0), dilations=(1, 1), group=1)
    assert len(applied(fold_batch_norms, make, batch_norm(make, conv)).nodes[0].inputs) == 3


def conv_transpose(make: GraphMaker, x: str, out: int, group: int = 1) -> str:
    """A transposed convolution that keeps the image's size."""
    attributes = {"strides": (1, 1), "pads": (1, 1, 1, 1), "dilations": (1, 1), "output_padding": (0, 0)}
    filters = make.weights(make.graph.shape(x)[1], out // group, 3, 3)
    return make.add("ConvTranspose", x, filters, make.weights(out), **attributes, group=group)


@pytest.mark.parametrize("group", [1, 2, 4])
def test_batch_norm_folds_into_transposed_convolution(make: GraphMaker, group: int) -> None:
    """Filters are [inputs, outputs of a group, height, width], so that a scale varies along the second axis."""
    y = batch_norm(make, conv_transpose(make, make.input(2, 4, 5, 5), 8, group))
    assert operators(applied(fold_batch_norms, make, y)) == ["ConvTranspose"]


def test_bias_residual_and_activation_fuse_into_transposed_convolution(make: GraphMaker) -> None:
    x = make.input(1, 4, 5, 5)
    shifted = make.add("Add", conv_transpose(make, x, 4), make.weights(4, 1, 1))
    y = make.add("Relu", make.add("Add", shifted, x))
    graph = applied(lambda graph: fuse_biases(graph) + fuse_residuals(graph) + fuse_activations(graph), make, y)
    assert operators(graph) == ["ConvTranspose"]
    assert graph.nodes[0].inputs[3] == x
    assert graph.nodes[0].attrs["activation"] == "relu"


def test_batch_norm_folds_into_fully_connected(make: GraphMaker) -> None:
    y = batch_norm(make, make.add("FullyConnected", make.input(2, 4), make.weights(5, 4)))
    assert operators(applied(fold_batch_norms, make, y)) == ["FullyConnected"]


def test_scale_and_shift_fold_into_batch_norm(make: GraphMaker) -> None:
    """Networks that normalize before the convolution have BatchNormalization, Mul and Add in a row."""
    scaled = make.add("Mul", batch_norm(make, make.input(2, 4, 3, 3)), make.weights(4, 1, 1))
    y = make.add("Add", make.weights(1, 4, 1, 1), scaled)
    graph = applied(lambda graph: fold_batch_norms(graph) + fuse_biases(graph), make, y)
    assert operators(graph) == ["BatchNormalization"]


@pytest.mark.parametrize("op", ["Mul", "Div"])
@pytest.mark.parametrize("shape", [(), (1,), (6, 1, 1), (1, 6, 1, 1)])
def test_a_scale_by_a_constant_folds_into_convolution(make: GraphMaker, op: str, shape: tuple[int, ...]) -> None:
    y = make.add(op, make.conv(make.input(1, 4, 5, 5), 6), make.weights(*shape))
    assert operators(applied(fold_batch_norms, make, y)) == ["Conv"]


@pytest.mark.parametrize("op", ["Add", "Sub"])
@pytest.mark.parametrize("constant_first", [False, True])
def test_an_added_constant_becomes_the_bias_of_a_convolution(make: GraphMaker, op: str, constant_first: bool) -> None:
    conv, constant = make.conv(make.input(1, 4, 5, 5), 6), make.weights(6, 1, 1)
    y = make.add(op, *((constant, conv) if constant_first else (conv, constant)))
    assert operators(applied(fuse_biases, make, y)) == ["Conv"]


def test_an_added_constant_becomes_the_bias_of_fully_connected(make: GraphMaker) -> None:
    y = make.add("Add", make.add("FullyConnected", make.input(2, 4), make.weights(5, 4)), make.weights(5))
    assert operators(applied(fuse_biases, make, y)) == ["FullyConnected"]


@pytest.mark.parametrize("shape", [(6,), (1, 6), (6, 5, 6), (2, 6, 1, 1), (1, 1, 6, 1, 1)])
def test_constant_that_varies_along_another_axis_stays(make: GraphMaker, shape: tuple[int, ...]) -> None:
    conv = make.conv(make.input(2, 4, 5, 6), 6)
    unchanged(fuse_biases, make, make.add("Add", conv, make.weights(*shape)))


def test_division_of_a_constant_stays(make: GraphMaker) -> None:
    unchanged(fold_batch_norms, make, make.add("Div", make.weights(6, 1, 1), make.conv(make.input(1, 4, 5, 5), 6)))


def test_constant_that_enlarges_the_tensor_stays(make: GraphMaker) -> None:
    conv = make.conv(make.input(1, 4, 5, 5), 1)
    unchanged(fuse_biases, make, make.add("Add", conv, make.weights(6, 1, 1)))


def test_activation_of_the_folded_operator_moves_along(make: GraphMaker) -> None:
    y = make.add("Add", make.conv(make.input(1, 4, 5, 5), 6), make.weights(6, 1, 1), activation="clip", **CLIP6)
    graph = applied(fuse_biases, make, y)
    assert graph.nodes[0].attrs["activation"] == "clip"


# What every fusion into the operator before must leave alone

FUSED_AFTER: dict[str, tuple[Pass, Callable[[GraphMaker, str], str]]] = {
    "batch norm": (fold_batch_norms, batch_norm),
    "bias": (fuse_biases, lambda make, x: make.add("Add", x, make.weights(4, 1, 1))),
    "activation": (fuse_activations, lambda make, x: make.add("Relu", x)),
    "residual": (fuse_residuals, lambda make, x: make.add("Add", x, make.graph.inputs[0])),
}


@pytest.mark.parametrize("name", FUSED_AFTER)
def test_tensor_that_is_read_twice_is_not_fused(make: GraphMaker, name: str) -> None:
    rewrite, after = FUSED_AFTER[name]
    conv = make.conv(make.input(1, 4, 5, 5), 4)
    unchanged(rewrite, make, after(make, conv), make.add("Softmax", conv, axis=1))


@pytest.mark.parametrize("name", FUSED_AFTER)
def test_tensor_that_is_an_output_is_not_fused(make: GraphMaker, name: str) -> None:
    rewrite, after = FUSED_AFTER[name]
    conv = make.conv(make.input(1, 4, 5, 5), 4)
    unchanged(rewrite, make, conv, after(make, conv))


@pytest.mark.parametrize("name", FUSED_AFTER)
def test_nothing_is_fused_after_an_activation(make: GraphMaker, name: str) -> None:
    rewrite, after = FUSED_AFTER[name]
    unchanged(rewrite, make, after(make, make.conv(make.input(1, 4, 5, 5), 4, activation="tanh")))


@pytest.mark.parametrize("name", ["batch norm", "bias", "residual"])
def test_no_sum_is_fused_after_a_residual(make: GraphMaker, name: str) -> None:
    rewrite, after = FUSED_AFTER[name]
    x = make.input(1, 4, 5, 5)
    unchanged(rewrite, make, after(make, make.conv(x, 4, residual=x)))


# Activations, residuals, padding


ACTIVATIONS: list[tuple[str, dict[str, float], str]] = [
    ("Relu", {}, "relu"),
    ("Clip", CLIP6, "clip"),
    ("Sigmoid", {}, "sigmoid"),
    ("Tanh", {}, "tanh"),
    ("LeakyRelu", {"alpha": 0.1}, "leaky_relu"),
    ("Elu", {"alpha": 0.7}, "elu"),
    ("HardSigmoid", GATE, "hard_sigmoid"),
    *(
        (each.operator, {parameter.name: parameter.default for parameter in each.parameters}, each.activation)
        for each in (code.function for code in unary.ACTIVATIONS if code > Unary.HARD_SIGMOID)
    ),
]


@pytest.mark.parametrize(("op", "parameters", "activation"), ACTIVATIONS)
@pytest.mark.parametrize("producer", ["Conv", "FullyConnected", "BatchNormalization", "Mul"])
def test_activation_fuses(
    make: GraphMaker, producer: str, op: str, parameters: dict[str, float], activation: str
) -> None:
    shape = (2, 4) if producer == "FullyConnected" else (2, 4, 5, 5)
    x = make.input(*shape)
    hidden = {
        "Conv": lambda: make.conv(x, 3),
        "FullyConnected": lambda: make.add("FullyConnected", x, make.weights(3, 4)),
        "BatchNormalization": lambda: batch_norm(make, x),
        "Mul": lambda: make.add("Mul", x, make.input(*shape)),
    }[producer]()
    graph = applied(fuse_activations, make, make.add(op, hidden, **parameters))
    assert operators(graph) == [producer]
    assert {"activation": activation, **parameters}.items() <= graph.nodes[0].attrs.items()


def test_an_activation_stays_after_an_operator_that_takes_none(make: GraphMaker) -> None:
    unchanged(fuse_activations, make, make.add("Relu", make.add("Softmax", make.input(2, 3), axis=1)))


@pytest.mark.parametrize("conv_first", [False, True])
def test_residual_fuses(make: GraphMaker, conv_first: bool) -> None:
    x = make.input(1, 4, 5, 5)
    conv = make.conv(x, 4)
    y = make.add("Add", *((conv, x) if conv_first else (x, conv)))
    graph = applied(fuse_residuals, make, y)
    assert operators(graph) == ["Conv"]
    assert graph.nodes[0].inputs[3] == x


def test_a_residual_fuses_into_a_convolution_without_bias(make: GraphMaker) -> None:
    x, w = make.input(1, 4, 5, 5), make.weights(4, 4, 1, 1)
    conv = make.add("Conv", x, w, strides=(1, 1), pads=(0, 0, 0, 0), dilations=(1, 1), group=1)
    graph = applied(fuse_residuals, make, make.add("Add", conv, x))
    assert graph.nodes[0].inputs == [x, w, "", x]


def test_a_residual_that_is_computed_after_the_convolution_fuses(make: GraphMaker) -> None:
    """The fused convolution takes the addition's place, behind what computes its residual."""
    x = make.input(1, 4, 5, 5)
    conv = make.conv(x, 4)
    late = make.add("Tanh", x)
    assert operators(applied(fuse_residuals, make, make.add("Add", late, conv))) == ["Tanh", "Conv"]


def test_of_two_convolutions_the_second_takes_the_first_as_residual(make: GraphMaker) -> None:
    x = make.input(1, 4, 5, 5)
    first, second = make.conv(x, 4), make.conv(x, 4)
    graph = applied(fuse_residuals, make, make.add("Add", first, second))
    assert operators(graph) == ["Conv", "Conv"]
    assert graph.nodes[1].inputs[3] == first


def test_sum_with_itself_or_of_another_shape_is_no_residual(make: GraphMaker) -> None:
    x = make.input(1, 4, 5, 5)
    conv = make.conv(x, 4)
    twice = make.add("Add", conv, conv)
    unchanged(fuse_residuals, make, twice, make.add("Add", make.conv(x, 4), make.input(1, 4, 1, 1)))


@pytest.mark.parametrize(("op", "absent"), [("Add", []), ("Mul", [""])])
def test_what_a_fully_connected_layer_meets_fuses_into_it(make: GraphMaker, op: str, absent: list[str]) -> None:
    """As SwiGLU and the sums of transformers are written."""
    x = make.input(2, 4)
    gate = make.add("Swish", make.add("FullyConnected", x, make.weights(4, 4)), alpha=1.0)
    w, b = make.weights(4, 4), make.weights(4)
    y = make.add(op, gate, make.add("FullyConnected", x, w, b))
    graph = applied(fuse_residuals, make, y)
    assert operators(graph) == ["FullyConnected", "Swish", "FullyConnected"]
    assert graph.nodes[2].inputs == [x, w, b, *absent, gate]


def test_a_convolution_takes_no_factor(make: GraphMaker) -> None:
    x = make.input(1, 4, 5, 5)
    unchanged(fuse_residuals, make, make.add("Mul", make.conv(x, 4), x))


@pytest.mark.parametrize("op", ["Add", "Mul"])
@pytest.mark.parametrize("rewrite", [fuse_residuals, fuse_biases])
def test_nothing_joins_or_scales_a_factor(make: GraphMaker, rewrite: Pass, op: str) -> None:
    x = make.input(2, 4)
    gated = make.add("FullyConnected", x, make.weights(4, 4), "", "", x)
    unchanged(rewrite, make, make.add(op, gated, x if rewrite is fuse_residuals else make.weights(4)))


def pad(make: GraphMaker, x: str, pads: tuple[int, ...] = (0, 0, 1, 2, 0, 0, 2, 0), value: float = 0.0) -> str:
    return make.add("Pad", x, pads=pads, value=value, mode="constant")


POOL = {"kernel": (3, 3), "strides": (2, 1), "pads": (0, 0, 0, 0)}


def test_pad_fuses_into_convolution(make: GraphMaker) -> None:
    graph = applied(fuse_pads, make, make.conv(pad(make, make.input(1, 2, 6, 6)), 3))
    assert operators(graph) == ["Conv"]
    assert graph.nodes[0].attrs["pads"] == (2, 3, 3, 1)


def test_pad_fuses_into_every_reader(make: GraphMaker) -> None:
    padded = pad(make, make.input(1, 2, 6, 6))
    graph = applied(fuse_pads, make, make.conv(padded, 3), make.conv(padded, 2, k=1))
    assert operators(graph) == ["Conv", "Conv"]


def test_pad_fuses_into_pools(make: GraphMaker) -> None:
    x = make.input(1, 2, 6, 6)
    average = make.add("AveragePool", pad(make, x), **POOL, count_include_pad=False)
    largest = make.add("MaxPool", pad(make, x, value=LOWEST), **POOL)
    positive = make.add("MaxPool", pad(make, make.add("Relu", x)), **POOL)
    graph = applied(fuse_pads, make, average, largest, positive)
    assert operators(graph) == ["AveragePool", "MaxPool", "Relu", "MaxPool"]
    assert graph.nodes[0].attrs["count_include_pad"]


def test_a_pad_that_the_next_operator_cannot_express_stays(make: GraphMaker) -> None:
    x = make.input(1, 2, 6, 6)
    own = POOL | {"pads": (1, 1, 1, 1)}
    outputs = [
        make.conv(pad(make, x, value=1.0), 3),
        make.conv(pad(make, x, (0, 1, 0, 0, 0, 0, 0, 0)), 3),
        make.conv(make.add("Pad", x, pads=(0, 0, 1, 1, 0, 0, 1, 1), value=0.0, mode="edge"), 3),
        make.add("MaxPool", pad(make, x), **POOL),
        make.add("MaxPool", pad(make, x, (0, 0, 3, 0, 0, 0, 0, 0), LOWEST), **POOL),
        make.add("AveragePool", pad(make, x), **own, count_include_pad=False),
    ]
    unchanged(fuse_pads, make, *outputs)


# Movement


def test_transposes_cancel(make: GraphMaker) -> None:
    there = make.add("Transpose", make.input(1, 2, 3, 4), perm=(0, 2, 3, 1))
    back = make.add("Transpose", there, perm=(0, 3, 1, 2))
    graph = applied(lambda graph: merge_transposes(graph) + remove_identities(graph), make, make.add("Neg", back))
    assert operators(graph) == ["Neg"]


def test_transposes_compose(make: GraphMaker) -> None:
    x = make.input(2, 3, 4)
    y = make.add("Transpose", make.add("Transpose", x, perm=(1, 2, 0)), perm=(0, 2, 1))
    graph = applied(merge_transposes, make, y)
    assert [node.attrs for node in graph.nodes] == [{"perm": (1, 0, 2)}]


def test_transpose_of_axes_of_size_one_is_a_reshape(make: GraphMaker) -> None:
    y = make.add("Transpose", make.input(2, 5, 1, 1), perm=(0, 2, 3, 1))
    assert operators(applied(merge_transposes, make, y)) == ["Reshape"]


def test_reshapes_merge(make: GraphMaker) -> None:
    x = make.input(2, 3, 4)
    middle = make.add("Reshape", x, shape=(6, 4))
    last = make.add("Reshape", middle, shape=(24,))
    graph = applied(merge_reshapes, make, last, make.add("Neg", middle))
    assert [node.inputs for node in graph.nodes] == [[x], [x], [middle]]


def line(make: GraphMaker, channels: int = 4) -> str:
    """A convolution along one axis: of images of one row, which is then dropped."""
    image = make.add("Reshape", make.input(2, 3, 7), shape=(2, 3, 1, 7))
    return make.add("Reshape", make.conv(image, channels), shape=(2, channels, 7))


FOLLOWING: dict[str, Callable[[GraphMaker, str], str]] = {
    "activation": lambda make, x: make.add("LeakyRelu", x, alpha=0.1),
    "bias": lambda make, x: make.add("Sub", make.weights(4, 1), x, activation="relu"),
    "scale along the row": lambda make, x: make.add("Mul", x, make.weights(7)),
    "scalar": lambda make, x: make.add("Div", x, make.constant(3)),
    "residual": lambda make, x: make.add("Add", make.input(2, 4, 7), x),
    "batch norm": batch_norm,
}


@pytest.mark.parametrize("name", FOLLOWING)
def test_what_follows_a_squeezed_convolution_comes_before_the_squeeze(make: GraphMaker, name: str) -> None:
    y = FOLLOWING[name](make, line(make))
    graph = applied(move_squeezes, make, y)
    ops = [op for op in operators(graph) if op != "Reshape"]
    assert graph.nodes[-1].op == "Reshape" and graph.nodes[-2].op == ops[-1]
    assert graph.shape(graph.nodes[-2].output) == (2, 4, 1, 7)


def test_a_squeeze_that_others_read_or_that_is_none_stays(make: GraphMaker) -> None:
    x = line(make)
    wider = make.add("Add", line(make), make.input(5, 2, 4, 7))
    regrouped = make.add("Reshape", make.conv(make.input(2, 3, 1, 6), 4), shape=(2, 6, 4))
    unchanged(move_squeezes, make, make.add("Relu", x), make.add("Neg", x), wider, make.add("Relu", regrouped))


def shuffle(make: GraphMaker, x: str, groups: int, perm: tuple[int, ...] = (0, 2, 1, 3, 4)) -> str:
    n, c, h, w = make.graph.shape(x)
    grouped = make.add("Reshape", x, shape=(n, groups, c // groups, h, w))
    return make.add("Reshape", make.add("Transpose", grouped, perm=perm), shape=(n, c, h, w))


@pytest.mark.parametrize("groups", [2, 3])
def test_reshape_transpose_reshape_becomes_a_channel_shuffle(make: GraphMaker, groups: int) -> None:
    graph = applied(fuse_rearrangements, make, shuffle(make, make.input(2, 6, 3, 4), groups))
    assert [(node.op, node.attrs) for node in graph.nodes] == [("ChannelShuffle", {"group": groups})]


def test_a_channel_shuffle_in_nhwc_is_one_between_transposes(make: GraphMaker) -> None:
    grouped = make.add("Reshape", make.input(2, 3, 4, 6), shape=(2, 3, 4, 3, 2))
    turned = make.add("Transpose", grouped, perm=(0, 1, 2, 4, 3))
    graph = applied(fuse_rearrangements, make, make.add("Reshape", turned, shape=(2, 3, 4, 6)))
    assert operators(graph) == ["Transpose", "ChannelShuffle", "Transpose"]
    assert graph.nodes[1].attrs == {"group": 3}
    assert len({node.name for node in graph.nodes}) == 3


def test_what_only_looks_like_a_channel_shuffle_stays(make: GraphMaker) -> None:
    other_axes = shuffle(make, make.input(2, 6, 3, 3), 2, (0, 1, 2, 4, 3))
    read_twice = make.add("Neg", make.graph.nodes[0].output)
    unchanged(fuse_rearrangements, make, other_axes, read_twice)


# Operator, mode -> input, six axes, their order, output; blocks of 2 x 2 of 3 channels.
WRITTEN_OUT = {
    ("DepthToSpace", "DCR"): ((2, 12, 5, 7), (2, 2, 2, 3, 5, 7), (0, 3, 4, 1, 5, 2), (2, 3, 10, 14)),
    ("DepthToSpace", "CRD"): ((2, 12, 5, 7), (2, 3, 2, 2, 5, 7), (0, 1, 4, 2, 5, 3), (2, 3, 10, 14)),
    ("SpaceToDepth", "DCR"): ((2, 3, 10, 14), (2, 3, 5, 2, 7, 2), (0, 3, 5, 1, 2, 4), (2, 12, 5, 7)),
    ("SpaceToDepth", "CRD"): ((2, 3, 10, 14), (2, 3, 5, 2, 7, 2), (0, 1, 3, 5, 2, 4), (2, 12, 5, 7)),
}


def rearranged(make: GraphMaker, shape: Shape, split: Shape, perm: Shape, out: Shape) -> str:
    six = make.add("Transpose", make.add("Reshape", make.input(*shape), shape=split), perm=perm)
    return make.add("Reshape", six, shape=out)


@pytest.mark.parametrize(("op", "mode"), WRITTEN_OUT)
def test_what_moves_blocks_of_pixels_to_channels_or_back_is_one_operator(make: GraphMaker, op: str, mode: str) -> None:
    graph = applied(fuse_rearrangements, make, rearranged(make, *WRITTEN_OUT[op, mode]))
    assert [(node.op, node.attrs) for node in graph.nodes] == [(op, {"blocksize": 2, "mode": mode})]


def test_what_only_looks_like_blocks_of_pixels_stays(make: GraphMaker) -> None:
    shape, split, perm, out = WRITTEN_OUT["DepthToSpace", "DCR"]
    other_order = rearranged(make, shape, split, (0, 3, 4, 2, 5, 1), out)
    other_shape = rearranged(make, shape, split, perm, (2, 3, 7, 20))
    oblong = rearranged(make, shape, (2, 4, 1, 3, 5, 7), perm, (2, 3, 20, 7))
    unchanged(fuse_rearrangements, make, other_order, other_shape, oblong)


@pytest.mark.parametrize("image", [(1, 1), (3, 2)])
def test_layer_on_a_flattened_image_is_a_convolution(make: GraphMaker, image: tuple[int, int]) -> None:
    x = make.input(2, 3, *image)
    flat = make.add("Reshape", x, shape=(2, 3 * image[0] * image[1]))
    weights = make.weights(5, 3 * image[0] * image[1])
    y = make.add("FullyConnected", flat, weights, make.weights(5), activation="clip", **CLIP6)
    graph = applied(convert_fully_connected, make, y)
    assert operators(graph) == ["Conv", "Reshape"]
    assert graph.nodes[0].attrs["activation"] == "clip"
    assert graph.shape(graph.nodes[0].inputs[1]) == (5, 3, *image)


def test_layer_on_many_flattened_images_stays_a_product(make: GraphMaker) -> None:
    """Its weights are read for many rows at once."""
    flat = make.add("Reshape", make.input(5, 3, 2, 2), shape=(5, 12))
    unchanged(convert_fully_connected, make, make.add("FullyConnected", flat, make.weights(5, 12)))


def test_layer_on_a_flattened_transposed_image_is_a_convolution_of_the_image(make: GraphMaker) -> None:
    turned = make.add("Transpose", make.input(2, 3, 4, 5), perm=(0, 2, 3, 1))
    flat = make.add("Reshape", turned, shape=(2, 60))
    graph = applied(convert_fully_connected, make, make.add("FullyConnected", flat, make.weights(7, 60)))
    assert operators(graph) == ["Conv", "Reshape"]
    assert graph.shape(graph.nodes[0].inputs[1]) == (7, 3, 4, 5)


def test_layer_on_an_image_whose_batch_was_transposed_keeps_the_transpose(make: GraphMaker) -> None:
    turned = make.add("Transpose", make.input(3, 2, 4, 5), perm=(1, 0, 2, 3))
    flat = make.add("Reshape", turned, shape=(2, 60))
    graph = applied(convert_fully_connected, make, make.add("FullyConnected", flat, make.weights(7, 60)))
    assert operators(graph) == ["Transpose", "Conv", "Reshape"]


def test_layers_in_a_row_become_convolutions(make: GraphMaker) -> None:
    hidden = make.add("Reshape", make.input(2, 3, 2, 2), shape=(2, 12))
    for inputs, outputs in ((12, 8), (8, 4)):
        hidden = make.add("FullyConnected", hidden, make.weights(outputs, inputs), activation="relu")
    graph = applied(convert_fully_connected, make, hidden)
    assert operators(graph) == ["Conv", "Conv", "Reshape"]


def test_layer_on_a_matrix_stays(make: GraphMaker) -> None:
    plain = make.add("FullyConnected", make.input(2, 4), make.weights(5, 4))
    flat = make.add("Reshape", make.input(2, 3, 2, 2), shape=(2, 12))
    joined = make.add("FullyConnected", flat, make.weights(5, 12), "", plain)
    mixed = make.add("Reshape", make.input(2, 3, 2, 2), shape=(4, 6))
    unchanged(convert_fully_connected, make, joined, make.add("FullyConnected", mixed, make.weights(5, 6)))


# Shared products

SEPARATE = {"extents": (2, 2, 3, 3, 4, 4), "offsets": (0, 0, 0), "mask_strides": (0, 0, 0, 0), "shape": (2, 3, 8)}
SEPARATE |= dict.fromkeys(("q_strides", "k_strides", "v_strides", "y_strides"), (24, 4, 8, 1))
SEPARATE |= {"members": 1, "scale": 0.5, "causal": False, "safe": False}


@pytest.mark.parametrize("biases", [0, 1, 3])
def test_queries_keys_and_values_are_one_product(make: GraphMaker, biases: int) -> None:
    x = make.input(2, 3, 5)
    parts = [
        make.add("FullyConnected", x, make.weights(8, 5), *([make.weights(8)] if index < biases else []))
        for index in range(3)
    ]
    graph = applied(join_products, make, make.add("Attention", *parts, **SEPARATE))
    assert operators(graph) == ["FullyConnected", "Attention"]
    assert graph.shape(graph.nodes[0].output) == (2, 3, 24)
    assert graph.nodes[1].attrs["offsets"] == (0, 8, 16)


def test_one_layer_that_attention_reads_twice_joins_another(make: GraphMaker) -> None:
    """As shared heads have it: keys of fewer heads, which are the values too, from a place on."""
    x = make.input(1, 4, 5)
    q, both = make.add("FullyConnected", x, make.weights(8, 5)), make.add("FullyConnected", x, make.weights(4, 5))
    shared = SEPARATE | dict.fromkeys(("k_strides", "v_strides"), (0, 0, 4, 1))
    shared |= {"offsets": (8, 4, 4), "extents": (1, 2, 3, 3, 4, 4), "shape": (1, 3, 8)}
    graph = applied(join_products, make, make.add("Attention", q, both, both, **shared))
    assert operators(graph) == ["FullyConnected", "Attention"]
    assert graph.nodes[1].attrs["offsets"] == (12, 20, 20)


def test_layers_that_others_read_too_or_that_attention_reads_across_rows_stay(make: GraphMaker) -> None:
    x = make.input(2, 3, 5)
    q, k, v = (make.add("FullyConnected", x, make.weights(8, 5)) for _ in range(3))
    across = SEPARATE | {"k_strides": (24, 4, 6, 1), "extents": (2, 1, 3, 3, 4, 4), "shape": (2, 3, 4)}
    across |= {"y_strides": (12, 4, 4, 1)}
    unchanged(join_products, make, make.add("Attention", q, k, v, **across), v)


# Hard swish


def hard_swishes(make: GraphMaker, x: str) -> dict[str, str]:
    """Adds the forms of hard swish that exporters write; the clip may be fused into the addition already."""
    clip = make.add("Clip", make.add("Add", x, make.constant(3)), **CLIP6)
    fused = make.add("Add", make.constant(3), x, activation="clip", **CLIP6)
    return {
        "divided last": make.add("Div", make.add("Mul", x, clip), make.constant(6)),
        "divided first": make.add("Mul", make.add("Div", clip, make.constant(6)), x),
        "multiplied": make.add("Mul", make.add("Mul", x, fused), make.constant(1 / 6)),
        "hard sigmoid": make.add("Mul", x, make.add("HardSigmoid", x, **GATE)),
    }


FORMS = ["divided last", "divided first", "multiplied", "hard sigmoid"]


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_hard_swish_becomes_one_operator(form: str) -> None:
    make = GraphMaker()
    wide = make.add("Mul", make.input(2, 3, 4, 4), make.constant(6))
    chosen = hard_swishes(make, wide)[form]
    # Only the chosen form may read the shared clip, as in a model.
    graph = make.finish(chosen)
    remove_dead_code(graph)
    assert operators(applied(fuse_gated_activations, make, chosen)) == ["Mul", "HardSwish"]


@pytest.mark.parametrize(
    ("shift", "bounds", "divisor"), [(2.0, CLIP6, 6.0), (3.0, {"alpha": 0.0, "beta": 5.0}, 6.0), (3.0, CLIP6, 5.0)]
)
def test_what_only_looks_like_a_hard_swish_stays(
    make: GraphMaker, shift: float, bounds: dict[str, Any], divisor: float
) -> None:
    x = make.input(2, 3)
    clip = make.add("Clip", make.add("Add", x, make.constant(shift)), **bounds)
    unchanged(fuse_gated_activations, make, make.add("Div", make.add("Mul", x, clip), make.constant(divisor)))


def test_gate_of_another_tensor_is_no_hard_swish(make: GraphMaker) -> None:
    x, other = make.input(2, 3), make.input(2, 3)
    unchanged(fuse_gated_activations, make, make.add("Mul", x, make.add("HardSigmoid", other, **GATE)))
