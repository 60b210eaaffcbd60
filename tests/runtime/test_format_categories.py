"""Every operator has a category, and a transposable one computes of permuted inputs its permuted output."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import pytest

from runtime.families.elementwise.definition import BINARY, UNARY
from runtime.families.reduction.definition import REDUCTIONS
from runtime.formats.category import FormatCategory, transposable
from runtime.formats.permutation import composed, inverse, moves_elements, permuted
from runtime.formats.rewriting import broadcasting
from runtime.graph import Array, Node
from runtime.operators.activations import ACTIVATION_OF, ACTIVATION_PARAMETERS
from runtime.operators.row import Operator
from runtime.operators.table import OPERATORS, format_category, rewritten
from runtime.oracle.evaluate import compute
from runtime.semantics.generic_forms import element_form, gather_form, reduction_form, view_form
from runtime.semantics.shape_functions import same
from tests.runtime.graphs import GraphMaker

SHAPE = (2, 3, 4, 5)
PERMS = [(0, 2, 3, 1), (0, 3, 1, 2), (0, 1, 3, 2), (3, 2, 1, 0), (1, 2, 3, 0)]
Write = Callable[[GraphMaker, str], str]


def test_exactly_the_transposable_operators_have_a_rule() -> None:
    for op, row in OPERATORS.items():
        assert (row.format.rule is not None) == (row.format.category == FormatCategory.TRANSPOSABLE), op


def test_a_users_operator_is_of_source_format_until_it_says_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    make = GraphMaker()
    node = Node("Swirl", "s", [make.input(*SHAPE)], [make.input(*SHAPE)], {})
    assert format_category("Swirl") == FormatCategory.SOURCE
    assert rewritten(make.graph, node, PERMS[0]) is None
    monkeypatch.setitem(OPERATORS, "Swirl", Operator((2, 2), same, format=transposable(broadcasting)))
    assert rewritten(make.graph, node, PERMS[0]) is not None


# Rules


def unary(op: str) -> Write:
    names = ACTIVATION_PARAMETERS[ACTIVATION_OF.get(op, "none")]
    return lambda make, x: make.add(op, x, **dict.fromkeys(names, 0.25))


def binary(op: str) -> Write:
    return lambda make, x: make.add(op, x, make.input(3, 4, 1))


def along(op: str, axis: int, **attributes: object) -> Write:
    return lambda make, x: make.add(op, x, axis=axis, **attributes)


def reduction(op: str, axes: tuple[int, ...], keepdims: bool) -> Write:
    return lambda make, x: make.add(op, x, axes=axes, keepdims=keepdims)


def strided_reduction(axes: tuple[int, ...], keepdims: bool, function: str) -> Write:
    return lambda make, x: make.add("StridedReduction", x, **reduction_form(SHAPE, axes, keepdims, function, "int64"))


def gathered(make: GraphMaker, x: str) -> str:
    indices = make.graph.add_constant("indices", np.array([2, 0], np.int64))
    return make.add("IndexedRead", x, indices, **gather_form(SHAPE, (2,), 2))


SLICE = {"starts": (0, 3), "ends": (2, -1), "axes": (1, 2), "steps": (1, -2)}
PADS = (0, 1, 2, 0, 1, 0, 0, 3)
CASES: dict[str, Write] = {
    **{op: unary(op) for op in UNARY},
    **{op: binary(op) for op in BINARY},
    **{f"{op} kept": reduction(op, (1, 3), True) for op in REDUCTIONS},
    "ReduceMean dropped": reduction("ReduceMean", (1, 3), False),
    "ReduceMean dropped at the end": reduction("ReduceMean", (2, 3), False),
    "PRelu": lambda make, x: make.add("PRelu", x, make.weights(3, 1, 1)),
    "Elementwise": lambda make, x: make.add("Elementwise", x, make.input(5), **element_form("less", "bool")),
    "Softmax": along("Softmax", 1),
    "LogSoftmax": along("LogSoftmax", 2),
    "LayerNormalization": lambda make, x: make.add(
        *("LayerNormalization", x, make.weights(5), make.weights(5)), axes=(3,), epsilon=1e-5, centered=True
    ),
    "LayerNormalization of channels": lambda make, x: make.add(
        *("LayerNormalization", x, make.weights(3)), axes=(1,), epsilon=1e-5, centered=False
    ),
    "Cumulation": along("Cumulation", 2, function="sum", exclusive=False, reverse=True),
    "Sorting": along("Sorting", 3, count=2, largest=True, positions=True),
    "Concat": lambda make, x: make.add("Concat", x, make.input(2, 3, 1, 5), axis=2),
    "Join": lambda make, x: make.add("Join", x, make.input(2, 1, 4, 5), axis=1),
    "Slice": lambda make, x: make.add("Slice", x, **SLICE),
    "Slice of nothing": lambda make, x: make.add("Slice", x, starts=(), ends=(), axes=(), steps=()),
    "Pad": lambda make, x: make.add("Pad", x, pads=PADS, value=1.5, mode="constant"),
    "Transpose": lambda make, x: make.add("Transpose", x, perm=(1, 3, 0, 2)),
    "ArgMax kept": strided_reduction((1,), True, "arg_max"),
    "ArgMax dropped": strided_reduction((3,), False, "arg_max"),
    "StridedReduction": strided_reduction((1, 2), True, "max"),
    "Embedding": lambda make, x: make.add(
        *("Embedding", x), shape=(2, 7, 5, 5), starts=(0, 1, 1, 0), steps=(1, 2, 1, 1), value=0.5
    ),
    "Strided slice": lambda make, x: make.add("Strided", x, **view_form((1, 2, 4, 3), (60, 40, 5, 2), 60)),
    "IndexedRead": gathered,
}
# Permutations that these cannot work with: what is left of the axes has another order, or is no layer any more.
REFUSED = {
    "LayerNormalization": {(0, 2, 3, 1), (0, 1, 3, 2), (3, 2, 1, 0), (1, 2, 3, 0)},
    "LayerNormalization of channels": {(0, 3, 1, 2), (3, 2, 1, 0), (1, 2, 3, 0)},
    "ReduceMean dropped": {(3, 2, 1, 0), (1, 2, 3, 0)},
    "ReduceMean dropped at the end": {(3, 2, 1, 0), (1, 2, 3, 0)},
    "ArgMax dropped": {(0, 2, 3, 1), (3, 2, 1, 0), (1, 2, 3, 0)},
}


def values_of(make: GraphMaker, node: Node) -> list[Array]:
    noise = make.noise()
    return [noise[name] if name in noise else make.graph.constants[name] for name in node.inputs]


def in_order(value: Array, perm: tuple[int, ...]) -> Array:
    """The array with its axes permuted, those of size 1 that it lacks put in front."""
    return value.reshape((1,) * (len(perm) - value.ndim) + value.shape).transpose(perm)


@pytest.mark.parametrize(("name", "perm"), list(itertools.product(CASES, PERMS)))
def test_a_rewritten_operator_computes_the_permuted_output(name: str, perm: tuple[int, ...]) -> None:
    make = GraphMaker()
    CASES[name](make, make.input(*SHAPE))
    node = make.graph.nodes[-1]
    values = [np.abs(value) for value in values_of(make, node)]
    rewriting = rewritten(make.graph, node, perm)
    assert (rewriting is None) == (perm in REFUSED.get(name, ()))
    if rewriting is None:
        return
    moved = [in_order(v, perm) if rewriting.reads_permuted(index) else v for index, v in enumerate(values)]
    expected, actual = compute(node.op, values, node.attrs), compute(node.op, moved, rewriting.attributes)
    np.testing.assert_allclose(actual, expected.transpose(perm) if rewriting.moves_output else expected, rtol=1e-6)


def test_every_transposable_operator_has_a_case() -> None:
    covered = {name.split()[0] for name in CASES} | {"IndexedRead", "Strided", "StridedReduction"}
    assert {op for op, row in OPERATORS.items() if row.format.rule} == covered - {"ArgMax"}


def unmovable() -> dict[str, Write]:
    rows, over = view_form((2, 12), (60, 5)), view_form((2, 3, 3, 2), (60, 20, 5, 3), 2)
    windows = {"function": "max", "dtype": "float32", "shape": (2, 3), "window": (2,), "strides": (60, 20, 5)}
    return {
        "a view of other axes": lambda make, x: make.add("Strided", x, **view_form((2, 5, 4, 3), (60, 1, 5, 20))),
        "a view of fewer axes": lambda make, x: make.add("Strided", x, **rows),
        "a view over the end of a row": lambda make, x: make.add("Strided", x, **over),
        "a sliding window": lambda make, x: make.add("StridedReduction", x, **windows, offset=0),
        "a Reshape": lambda make, x: make.add("Reshape", x, shape=(6, 4, 5, 1)),
        "a reduced vector": lambda make, x: make.add("Neg", make.add("Reshape", x, shape=(120,))),
    }


@pytest.mark.parametrize("name", unmovable())
def test_what_mixes_axes_does_not_move(name: str) -> None:
    make = GraphMaker()
    unmovable()[name](make, make.input(*SHAPE))
    assert rewritten(make.graph, make.graph.nodes[-1], PERMS[0]) is None


def test_indices_of_several_axes_do_not_move() -> None:
    make = GraphMaker()
    indices = make.graph.add_constant("indices", np.zeros((2, 2), np.int64))
    make.add("IndexedRead", make.input(*SHAPE), indices, **gather_form(SHAPE, (2, 2), 1))
    assert rewritten(make.graph, make.graph.nodes[-1], PERMS[0]) is None


# Permutations


@pytest.mark.parametrize("perm", PERMS)
def test_permutations_compose_and_are_undone(perm: tuple[int, ...]) -> None:
    x = np.arange(120).reshape(SHAPE)
    assert composed(perm, inverse(perm)) == (0, 1, 2, 3)
    assert permuted(SHAPE, perm) == x.transpose(perm).shape
    for other in PERMS:
        np.testing.assert_array_equal(x.transpose(perm).transpose(other), x.transpose(composed(perm, other)))


@pytest.mark.parametrize(("shape", "moves"), [((1, 3, 1, 1), False), ((2, 3, 1, 1), False), ((1, 3, 2, 1), True)])
def test_only_axes_of_more_than_one_element_count(shape: tuple[int, ...], moves: bool) -> None:
    assert moves_elements(shape, (0, 2, 3, 1)) == moves
