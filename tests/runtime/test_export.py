"""What is exported to ONNX is accepted by ONNX's checker, computes the same, and is read back to the same graph."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given, settings

from runtime.errors import ModelError, UnsupportedError
from runtime.exporters import onnx_exporter
from runtime.exporters.onnx_exporter import export_onnx, is_large
from runtime.families.elementwise.definition import BINARY, UNARY
from runtime.families.reduction.definition import REDUCTIONS
from runtime.graph import Graph
from runtime.importers.farm_domain import DOMAIN
from runtime.importers.handlers import EXPANSIONS
from runtime.importers.onnx_file import load_onnx, whole
from runtime.importers.onnx_importer import import_onnx
from runtime.operators.table import OPERATORS
from runtime.oracle.evaluate import evaluate
from runtime.passes.pipeline import run_passes
from runtime.semantics.generic import GENERIC_OPERATORS
from runtime.semantics.recurrence import GATES
from tests.runtime.graphs import GraphMaker
from tests.runtime.onnx_models import run_onnxruntime
from tests.runtime.random_graphs import random_graphs

WINDOW = {"kernel": (3, 2), "strides": (2, 1), "pads": (1, 0, 1, 1)}
RESIZE = {"mode": "linear", "coordinate_transformation_mode": "half_pixel", "nearest_mode": "floor"}
SPREAD = {"strides": (2, 3), "pads": (1, 0, 1, 2), "dilations": (1, 2), "output_padding": (1, 0)}
SHAPE = (2, 4, 6, 5)
ATTENTION = {
    **{"extents": (2, 4, 6, 6, 5, 5), "offsets": (0, 0, 0), "mask_strides": (0, 0, 0, 0), "shape": SHAPE},
    **dict.fromkeys(("q_strides", "k_strides", "v_strides", "y_strides"), (120, 30, 5, 1)),
    **{"members": 1, "scale": 0.5, "causal": False, "safe": False},
}

# Operator -> attributes, with inputs after the first as shapes of constants.
FORMS: dict[str, list[tuple[list[tuple[int, ...]], dict[str, Any]]]] = {
    **{op: [([SHAPE], {}), ([SHAPE], {"activation": "clip", "alpha": 0.0, "beta": 6.0})] for op in BINARY},
    **{op: [([], dict.fromkeys(parameters, 0.5))] for op, parameters in UNARY.items()},
    **{op: [([], {"axes": (2, 3), "keepdims": keep}) for keep in (True, False)] for op in REDUCTIONS},
    "Conv": [
        ([(6, 2, 3, 3), (6,)], {"strides": (2, 1), "pads": (1, 0, 1, 2), "dilations": (1, 2), "group": 2}),
        ([(6, 4, 1, 1)], {"strides": (1, 1), "pads": (0,) * 4, "dilations": (1, 1), "group": 1, "activation": "relu"}),
    ],
    "ConvTranspose": [
        ([(4, 3, 3, 2), (6,)], {**SPREAD, "group": 2}),
        ([(4, 5, 2, 2)], {**SPREAD, "pads": (0, -1, 0, 1), "activation": "relu", "group": 1}),
    ],
    "MatMul": [([(5, 3)], {}), ([(2, 4, 5, 7)], {})],
    "BatchNormalization": [([(4,), (4,)], {})],
    "MaxPool": [([], WINDOW)],
    "AveragePool": [([], {**WINDOW, "count_include_pad": include}) for include in (True, False)],
    "Clip": [([], {"alpha": -0.25, "beta": 3.4028234663852886e38})],
    "LeakyRelu": [([], {"alpha": 0.25})],
    "Elu": [([], {"alpha": 0.5})],
    "HardSigmoid": [([], {"alpha": 0.25, "beta": 0.5})],
    "PRelu": [([(4, 1, 1)], {})],
    "LRN": [([], {"alpha": 0.125, "beta": 0.75, "bias": 2.0, "size": 3})],
    "Softmax": [([], {"axis": 1})],
    "LogSoftmax": [([], {"axis": 2})],
    "Swish": [([], {"alpha": 0.5})],
    "Selu": [([], {"alpha": 1.5, "beta": 0.5})],
    "Celu": [([], {"alpha": 1.5})],
    "FakeQuantize": [([], {"alpha": -0.5, "beta": 2.0})],
    "LayerNormalization": [
        ([(5,), (5,)], {"axes": (3,), "epsilon": 0.125, "centered": True}),
        ([], {"axes": (1,), "epsilon": 0.125, "centered": False}),
    ],
    "GroupNormalization": [([(4,), (4,)], {"groups": 2, "epsilon": 0.125, "activation": "gelu"})],
    "Concat": [([(2, 3, 6, 5)], {"axis": 1})],
    "Slice": [([], {"starts": (5, 1), "ends": (-1, 4), "axes": (2, 3), "steps": (-2, 1)})],
    "Pad": [([], {"pads": (0, 1, 2, 0, 0, 0, 1, 1), "value": -1.5, "mode": mode}) for mode in ("constant", "edge")],
    "Transpose": [([], {"perm": (0, 2, 3, 1)})],
    "Reshape": [([], {"shape": (8, 30)})],
    "Resize": [
        ([], {**RESIZE, "sizes": (9, 7), "scales": (9 / 6, 7 / 5)}),
        ([], {**RESIZE, "sizes": (9, 7), "scales": (1.625, 1.5)}),
    ],
    "ChannelShuffle": [([], {"group": 2})],
    "DepthToSpace": [([], {"blocksize": 2, "mode": mode}) for mode in ("DCR", "CRD")],
    "SpaceToDepth": [([], {"blocksize": 1, "mode": mode}) for mode in ("DCR", "CRD")],
    "FullyConnected": [([(7, 5), (7,)], {}), ([(7, 5)], {"activation": "gelu"})],
    "Attention": [([SHAPE, SHAPE], ATTENTION), ([SHAPE, SHAPE, (6,)], ATTENTION | {"mask_strides": (0, 0, 0, 1)})],
    "Rotary": [([(6,), (3,)], {"shape": (4, 6), "strides": (6, 1), "offset": 0})],
}
CASES = [
    pytest.param(op, shapes, attributes, id=f"{op}-{index}")
    for op, forms in FORMS.items()
    for index, (shapes, attributes) in enumerate(forms)
]


def assert_same(actual: Graph, expected: Graph) -> None:
    assert actual.name == expected.name
    assert actual.nodes == expected.nodes
    assert actual.inputs == expected.inputs
    assert actual.outputs == expected.outputs
    assert actual.tensors == expected.tensors
    assert actual.constants.keys() == expected.constants.keys()
    for name, value in expected.constants.items():
        np.testing.assert_array_equal(actual.constants[name], value)


def checked(graph: Graph) -> onnx.ModelProto:
    model = export_onnx(graph)
    onnx.checker.check_model(model, full_check=True)
    return model


def one_op_graph(op: str, shapes: list[tuple[int, ...]], attributes: dict[str, Any]) -> Graph:
    make = GraphMaker()
    x = make.input(*SHAPE)
    return make.finish(make.add(op, x, *(make.weights(*shape) for shape in shapes), **attributes))


@pytest.mark.parametrize(("op", "shapes", "attributes"), CASES)
def test_every_form_is_read_back_to_the_same_graph(
    op: str, shapes: list[tuple[int, ...]], attributes: dict[str, Any]
) -> None:
    graph = one_op_graph(op, shapes, attributes)
    assert_same(import_onnx(checked(graph)), graph)


@pytest.mark.parametrize(("op", "shapes", "attributes"), CASES)
def test_plain_operators_mean_what_onnx_says(
    op: str, shapes: list[tuple[int, ...]], attributes: dict[str, Any]
) -> None:
    graph = one_op_graph(op, shapes, attributes)
    model = checked(graph)
    if any(node.domain == DOMAIN for node in model.graph.node):
        own = {"BatchNormalization", "ChannelShuffle", "LayerNormalization", "GroupNormalization", "Attention"}
        own |= {"Gelu", "GeluTanh", "Swish", "Mish", "Selu", "FakeQuantize", "FakeQuantize16"}
        own |= {"FullyConnected", "MatMul", "Rotary", "SpaceToDepth"}  # of four axes; of mode CRD
        assert op in own or "activation" in attributes or "keepdims" in attributes
        return
    inputs = {name: np.abs(value) + np.float32(0.1) for name, value in noise(graph).items()}
    expected = run_onnxruntime(model, inputs)[0]
    np.testing.assert_allclose(evaluate(graph, inputs)[graph.outputs[0]], expected, rtol=1e-5, atol=1e-5)


def noise(graph: Graph) -> dict[str, Any]:
    random = np.random.default_rng(7)
    return {name: random.standard_normal(graph.shape(name), dtype=np.float32) for name in graph.inputs}


def test_every_operator_has_a_form() -> None:
    """Generic operators are exported as graphs of test_generic.py, recurrent ones as those of test_recurrent.py, and
    quantised ones as those of test_quantization.py."""
    assert FORMS.keys() == OPERATORS.keys() - {*GENERIC_OPERATORS, *GATES, *EXPANSIONS}


@pytest.mark.parametrize("more", [{}, {"activation": "leaky_relu", "alpha": 0.25}])
def test_fully_connected_becomes_gemm_unless_it_has_an_activation(more: dict[str, Any]) -> None:
    make = GraphMaker()
    x = make.input(2, 3)
    hidden = make.add("FullyConnected", x, make.weights(4, 3), make.weights(4), **more)
    graph = make.finish(make.add("FullyConnected", hidden, make.weights(5, 4), **more))
    model = checked(graph)
    assert_same(import_onnx(model), graph)
    assert [node.op_type for node in model.graph.node] == ["FullyConnected" if more else "Gemm"] * 2


def test_product_with_a_constant_matrix_stays_a_product() -> None:
    make = GraphMaker()
    graph = make.finish(make.add("MatMul", make.input(2, 3), make.weights(3, 4)))
    assert_same(import_onnx(checked(graph)), graph)


def test_a_residual_without_a_bias_is_read_back() -> None:
    make = GraphMaker()
    x = make.input(1, 2, 3, 3)
    attributes = {"strides": (1, 1), "pads": (0,) * 4, "dilations": (1, 1), "group": 1}
    graph = make.finish(make.add("Conv", x, make.weights(2, 2, 1, 1), "", x, **attributes))
    assert_same(import_onnx(checked(graph)), graph)


@pytest.mark.parametrize("absent", [[], [""]])
def test_what_a_fully_connected_layer_meets_is_read_back(absent: list[str]) -> None:
    make = GraphMaker()
    x = make.input(2, 3)
    graph = make.finish(make.add("FullyConnected", x, make.weights(3, 3), "", *absent, x))
    assert_same(import_onnx(checked(graph)), graph)


@pytest.mark.slow
@settings(max_examples=40)
@given(case=random_graphs())
def test_random_graphs_are_read_back_after_all_passes(case: tuple[Graph, GraphMaker]) -> None:
    graph, _ = case
    run_passes(graph)
    assert_same(import_onnx(checked(graph)), graph)


def test_export_is_deterministic_and_loads_from_a_file(tmp_path: Path) -> None:
    graph = one_op_graph("ChannelShuffle", [], {"group": 2})
    data = export_onnx(graph).SerializeToString(deterministic=True)
    assert data == export_onnx(graph).SerializeToString(deterministic=True)
    path = tmp_path / "graph.onnx"
    path.write_bytes(data)
    assert_same(import_onnx(load_onnx(path)), graph)


def test_constants_of_a_large_graph_lie_beside_its_file_and_are_read_when_needed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make = GraphMaker()
    graph = make.finish(make.conv(make.input(1, 64, 8, 8), 64, k=3))
    assert not is_large(graph)
    monkeypatch.setattr(onnx_exporter, "MOST_INSIDE", 1 << 16)
    assert is_large(graph)
    path, beside = tmp_path / "graph.onnx", tmp_path / "graph.onnx.data"
    with beside.open("wb") as data:
        path.write_bytes(export_onnx(graph, data, beside.name).SerializeToString())
    onnx.checker.check_model(path)
    assert path.stat().st_size < 4096 < beside.stat().st_size
    model = load_onnx(path)
    assert_same(import_onnx(model), graph)
    assert_same(import_onnx(whole(model)), graph)
    beside.write_bytes(beside.read_bytes()[:-1])
    with pytest.raises(ModelError, match=r"graph.onnx.data: has become shorter since the model was loaded"):
        import_onnx(model)


def test_own_domain_is_checked_at_import() -> None:
    model = export_onnx(one_op_graph("ChannelShuffle", [], {"group": 2}))
    node = model.graph.node[0]
    node.attribute[0].i = 3
    with pytest.raises(ModelError, match=r"\(ChannelShuffle\): 4 channels do not split into 3 groups"):
        import_onnx(model)
    node.attribute[0].i = 0
    with pytest.raises(ModelError, match=r"attribute group is 0; expected: count"):
        import_onnx(model)
    node.attribute[0].name = "groups"
    with pytest.raises(ModelError, match=r"attribute groups is unknown; known: activation, alpha, beta, group"):
        import_onnx(model)
    node.op_type = "Magic"
    with pytest.raises(UnsupportedError, match=r"\(Magic\): domain 'farm' has no such operator"):
        import_onnx(model)
    model.opset_import[1].version = 9
    with pytest.raises(UnsupportedError, match="version 9 of domain 'farm'; supported: 1"):
        import_onnx(model)
