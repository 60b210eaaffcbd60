"""Origin formats spread from anchors in both directions, and end where their meaning ends."""

import itertools
from collections.abc import Callable

import numpy as np
import pytest

from runtime.convert import convert
from runtime.families.elementwise.definition import BINARY, UNARY
from runtime.families.reduction.definition import REDUCTIONS
from runtime.formats.category import FormatCategory, transposable
from runtime.formats.permutation import composed, inverse, moves_elements, permuted
from runtime.formats.rewriting import broadcasting
from runtime.graph import Array, Node, OrderedOrigin
from runtime.operators.activations import ACTIVATION_OF, ACTIVATION_PARAMETERS
from runtime.operators.row import Operator
from runtime.operators.table import OPERATORS, format_category, rewritten
from runtime.oracle.evaluate import compute
from runtime.passes.origins import carried_origins, origin_lines, trace_origins
from runtime.passes.pipeline import run_passes
from runtime.semantics.generic_forms import element_form, gather_form, reduction_form, view_form
from runtime.semantics.shape_functions import same
from runtime.types import Origin, OriginFormat
from tests.runtime.graphs import GraphMaker
from tests.runtime.onnx_models import one_op

NCHW, NHWC, ND = OriginFormat.NCHW, OriginFormat.NHWC, OriginFormat.ND
TO_NHWC, TO_NCHW = (0, 2, 3, 1), (0, 3, 1, 2)


def formats(make: GraphMaker, **given: OriginFormat) -> dict[str, OriginFormat]:
    return {name: traced.origin.format for name, traced in trace_origins(make.graph, given).items()}


def lines(make: GraphMaker, **given: OriginFormat) -> dict[str, str]:
    return dict(line.split(": ", 1) for line in origin_lines(trace_origins(make.graph, given)))


def test_a_convolution_gives_its_tensors_a_format_and_others_get_it_from_them(make: GraphMaker) -> None:
    before = make.add("Relu", make.input(1, 2, 4, 4))
    conv = make.conv(before, 3)
    after = make.add("Add", conv, make.input(1, 3, 4, 4))
    assert formats(make) == dict.fromkeys(("x0", "x1", before, conv, after), NCHW)


def test_a_residual_has_the_format_of_its_convolution(make: GraphMaker) -> None:
    x, residual = make.input(1, 2, 4, 4), make.input(1, 2, 4, 4)
    make.conv(x, 2, residual=residual)
    assert formats(make)[residual] == NCHW


def test_a_transpose_changes_the_format_in_both_directions(make: GraphMaker) -> None:
    x = make.input(1, 4, 4, 2)
    conv = make.conv(make.add("Transpose", make.add("Tanh", x), perm=TO_NCHW), 3)
    back = make.add("Softmax", make.add("Transpose", conv, perm=TO_NHWC), axis=3)
    found = formats(make)
    assert (found[x], found["tanh0"], found[conv], found[back]) == (NHWC, NHWC, NCHW, NHWC)


def test_the_deployment_file_gives_a_format_where_no_operator_does(make: GraphMaker) -> None:
    x = make.input(1, 4, 4, 2)
    y = make.add("ReduceMean", x, axes=(1, 2), keepdims=True)
    assert formats(make) == {x: ND, y: ND}
    assert formats(make, x0=NHWC) == {x: NHWC, y: NHWC}


ENDS = [
    ("Reshape", {"shape": (1, 32)}, "which regroups the axes"),
    ("Reshape", {"shape": (2, 1, 4, 4)}, "which regroups the axes"),
    ("Transpose", {"perm": (1, 0, 2, 3)}, "which puts the axes into the order (1, 0, 2, 3)"),
    ("ReduceMax", {"axes": (1,), "keepdims": False}, "which mixes or drops axes"),
]


@pytest.mark.parametrize(("op", "attributes", "why"), ENDS)
def test_the_meaning_ends_and_the_line_says_where_and_why(
    make: GraphMaker, op: str, attributes: dict[str, object], why: str
) -> None:
    conv = make.conv(make.input(1, 2, 4, 4), 2)
    y = make.add("Neg", make.add(op, conv, **attributes))
    found = lines(make)
    assert found[conv] == f"NCHW [1,2,4,4]; ends at {op} 'n_{op.lower()}1', {why}"
    shape = ",".join(map(str, make.graph.shape(y)))
    assert found[y] == f"ND [{shape}]"


def test_a_product_of_matrices_is_of_source_format(make: GraphMaker) -> None:
    make.add("MatMul", make.conv(make.input(1, 2, 4, 4), 2), make.weights(4, 4))
    assert lines(make)["conv0"].endswith("; ends at MatMul 'n_matmul1', which is of source format")


def test_sources_that_disagree_are_told(make: GraphMaker) -> None:
    x = make.input(1, 2, 4, 4)
    make.conv(x, 2)
    assert lines(make, x0=NHWC)[x] == "NHWC [1,2,4,4], though what reads or writes it says otherwise"


def test_a_format_of_what_is_no_image_is_ignored(make: GraphMaker) -> None:
    x = make.input(3, 4)
    make.add("Relu", x)
    assert formats(make, x0=NHWC)[x] == ND


def test_a_tensor_keeps_its_origin_where_passes_bring_it_into_another_order() -> None:
    """The product lies in NCHW once the transpositions around it have moved; to its author it is still in NHWC."""
    make = GraphMaker()
    x = make.input(1, 4, 6, 2)
    convs = [make.conv(make.add("Transpose", x, perm=TO_NCHW), 3) for _ in range(2)]
    product = make.add("Mul", *(make.add("Transpose", conv, perm=TO_NHWC) for conv in convs))
    shares = make.add("Softmax", product, axis=3)
    make.finish(make.conv(make.add("Transpose", shares, perm=TO_NCHW), 5))
    traced = trace_origins(make.graph, {})
    run_passes(make.graph)
    carried = carried_origins(make.graph, traced)
    moved = next(name for name, form in make.graph.moved.items() if form.tensor == product and name in carried)
    assert make.graph.shape(moved) == (1, 3, 4, 6)
    assert carried[moved] == OrderedOrigin(Origin(NHWC, (1, 4, 6, 3)), NCHW)
    assert carried[x] == OrderedOrigin(Origin(NHWC, (1, 4, 6, 2)), NHWC)


def test_what_a_pass_made_has_the_origin_of_its_neighbours(make: GraphMaker) -> None:
    conv = make.conv(make.input(1, 2, 4, 4), 2)
    traced = trace_origins(make.graph, {})
    late = make.add("Relu", conv)
    found = carried_origins(make.graph, traced)
    assert found[late] == OrderedOrigin(Origin(NCHW, (1, 2, 4, 4)), NCHW)


def test_the_conversion_reports_every_tensor_where_formats_are_asked_for() -> None:
    model = one_op("GlobalAveragePool", {"x": (1, 2, 3, 3)})
    _, reports = convert(model, formats={"x": NCHW})
    assert (reports[1].name, reports[1].changes) == ("origin formats", ["x: NCHW [1,2,3,3]", "y: NCHW [1,2,1,1]"])
    assert "origin formats" not in {report.name for report in convert(model)[1]}


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
