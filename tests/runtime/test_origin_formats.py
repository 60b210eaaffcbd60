"""Origin formats spread from anchors in both directions, and end where their meaning ends."""

from __future__ import annotations

import pytest

from runtime.convert import convert
from runtime.graph import OrderedOrigin
from runtime.passes.origins import carried_origins, origin_lines, trace_origins
from runtime.passes.pipeline import run_passes
from runtime.types import Origin, OriginFormat
from tests.runtime.graphs import GraphMaker
from tests.runtime.onnx_models import one_op

NCHW, NHWC, ND = OriginFormat.NCHW, OriginFormat.NHWC, OriginFormat.ND
TO_NHWC, TO_NCHW = (0, 2, 3, 1), (0, 3, 1, 2)


@pytest.fixture
def make() -> GraphMaker:
    return GraphMaker()


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
