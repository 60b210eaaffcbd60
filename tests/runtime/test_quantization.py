"""Quantised operators are nodes until they are expanded; tensors say what they stand for."""

import dataclasses
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from runtime.convert import convert
from runtime.errors import ModelError
from runtime.exporters.onnx_exporter import export_onnx
from runtime.graph import Array, Graph
from runtime.importers.handlers import EXPANSIONS
from runtime.importers.onnx_importer import import_onnx
from runtime.operators.table import OPERATORS, check_graph
from runtime.oracle.evaluate import evaluate
from runtime.passes.expansion import expand_operators
from runtime.semantics.quantization import Quantization
from tests.runtime.onnx_models import inputs_of, run_onnxruntime

IMAGE = (1, 4, 7, 6)
SCALES = {"s": np.float32(0.05), "z": np.uint8(7), "s2": np.float32(0.3), "z2": np.uint8(90)}


def draw(kind: Any, *shape: int) -> Array:
    info = np.iinfo(kind)
    return np.random.default_rng(3).integers(info.min, info.max, shape, endpoint=True).astype(kind)


def of_channels(count: int) -> dict[str, Array]:
    scales = np.linspace(0.01, 0.05, count, dtype=np.float32)
    return {"ws": scales, "wz": np.arange(count, dtype=np.int8)}


def quantized(
    nodes: list[tuple[Any, ...]],
    constants: dict[str, Any],
    shape: tuple[int, ...] = IMAGE,
    output: int = TensorProto.FLOAT,
) -> onnx.ModelProto:
    """A model of nodes (operator, inputs, outputs, attributes) that reads float `x` and writes `y`."""
    made = [helper.make_node(op, reads.split(), writes.split(), writes, **more) for op, reads, writes, more in nodes]
    graph = helper.make_graph(
        made,
        "quantised",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", output, None)],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


FIRST = ("QuantizeLinear", "x s z", "q", {})
LAST = ("DequantizeLinear", "p s2 z2", "y", {})
CONV = {**SCALES, **of_channels(6), "w": draw(np.int8, 6, 2, 3, 2)}
PRODUCT = {**SCALES, **of_channels(3), "w": draw(np.int8, 6, 3), "wz": np.zeros(3, np.int8)}
WINDOWS = {"group": 2, "pads": [1, 0, 2, 1], "strides": [2, 1], "dilations": [1, 2]}
MODELS = {
    "there and back": quantized([FIRST, ("DequantizeLinear", "q s z", "y", {})], SCALES),
    "along an axis": quantized(
        [("QuantizeLinear", "x ws wz", "q", {"axis": -3}), ("DequantizeLinear", "q ws wz", "y", {"axis": 1})],
        of_channels(4),
    ),
    "in blocks": quantized(
        [
            ("QuantizeLinear", "x s", "q", {"axis": 2, "block_size": 3, "output_dtype": TensorProto.INT16}),
            ("DequantizeLinear", "q s", "y", {"axis": 2, "block_size": 3}),
        ],
        {"s": np.linspace(0.01, 0.05, 72, dtype=np.float32).reshape(1, 4, 3, 6)},
    ),
    "without zero points": quantized(
        [("QuantizeLinear", "x s", "q", {}), ("DequantizeLinear", "q s", "y", {})], SCALES
    ),
    "convolution": quantized(
        [FIRST, ("QLinearConv", "q s z w ws wz s2 z2 b", "p", WINDOWS), LAST],
        {**CONV, "b": draw(np.int16, 6).astype(np.int32)},
    ),
    "convolution to int32": quantized(
        [FIRST, ("ConvInteger", "q w z", "p", WINDOWS), ("Cast", "p", "y", {"to": TensorProto.FLOAT})], CONV
    ),
    "product": quantized([FIRST, ("QLinearMatMul", "q s z w ws wz s2 z2", "p", {}), LAST], PRODUCT),
    "product to int32": quantized(
        [FIRST, ("MatMulInteger", "q w z wz", "p", {}), ("Cast", "p", "y", {"to": TensorProto.FLOAT})], PRODUCT
    ),
    "product without a zero point on the left": quantized(
        [
            ("QuantizeLinear", "x s", "q", {}),
            ("MatMulInteger", "q w", "p", {}),
            ("Cast", "p", "y", {"to": TensorProto.FLOAT}),
        ],
        PRODUCT,
    ),
    "product with a vector": quantized(
        [FIRST, ("MatMulInteger", "q v z", "p", {}), ("Cast", "p", "y", {"to": TensorProto.FLOAT})],
        {**SCALES, "v": draw(np.int8, 6)},
    ),
}


def quantized_nodes(graph: Graph) -> set[str]:
    return {node.op for node in graph.nodes} & EXPANSIONS.keys()


def test_every_quantized_operator_has_a_model() -> None:
    assert set[str]().union(*(quantized_nodes(import_onnx(model)) for model in MODELS.values())) == EXPANSIONS.keys()
    assert EXPANSIONS.keys() <= OPERATORS.keys()


@pytest.mark.parametrize("name", MODELS)
def test_an_operator_stays_a_node_until_it_is_expanded_and_computes_the_same(name: str) -> None:
    graph = import_onnx(MODELS[name])
    check_graph(graph)
    assert quantized_nodes(graph)
    inputs = inputs_of(graph, low=-8.0, high=8.0)
    expected, known = evaluate(graph, inputs), dict(graph.tensors)
    np.testing.assert_allclose(expected["y"], run_onnxruntime(MODELS[name], inputs)[0], rtol=1e-6)
    names = {node.name for node in graph.nodes if node.op in EXPANSIONS}
    done = expand_operators(graph)
    assert names <= {word for nodes in done.values() for node in nodes for word in node.split(" with ")}
    assert not quantized_nodes(graph) and not any(expand_operators(graph).values())
    check_graph(graph)
    found = evaluate(graph, inputs)
    step = max(known["y"].quantization.scale) if known["y"].quantization else 0.0
    assert np.abs(found["y"] - expected["y"]).max() <= 1.001 * step
    for tensor in expected.keys() & found.keys():
        np.testing.assert_allclose(found[tensor], expected[tensor], rtol=1e-5, atol=1e-6)
        assert graph.tensors[tensor] == known[tensor]
    assert not quantized_nodes(convert(MODELS[name])[0])


@pytest.mark.parametrize(
    ("op", "integer_op", "shape", "constants"),
    [
        ("FullyConnected", "MatMulInteger", (9, 6), PRODUCT),
        ("FullyConnected", "MatMulInteger", (9, 6), {**PRODUCT, "wz": None}),
        ("Conv", "ConvInteger", IMAGE, {**CONV, "ws": np.float32(0.02), "wz": np.int8(3)}),
    ],
)
def test_products_of_what_is_quantised_as_it_runs_are_those_of_floats(
    op: str, integer_op: str, shape: tuple[int, ...], constants: dict[str, Any]
) -> None:
    """As ONNX Runtime's quantize_dynamic writes them: sums of integers would be no kernel's."""
    windows = WINDOWS if integer_op == "ConvInteger" else {}
    nodes: list[tuple[Any, ...]] = [("DynamicQuantizeLinear", "x", "q s z", {})]
    reads = "q w z wz" if constants["wz"] is not None else "q w z"
    nodes += [(integer_op, reads, "p", windows), ("Cast", "p", "f", {"to": TensorProto.FLOAT})]
    nodes += [("Mul", "s ws", "both", {}), ("Mul", "f both", "y", {})]
    model = quantized(nodes, {name: constants[name] for name in ("w", "ws", "wz")[: len(reads.split()) - 1]}, shape)
    graph = convert(model)[0]
    ops = [node.op for node in graph.nodes]
    assert ops[-1] == op and not {"StridedProduct", "WindowedProduct"} & {*ops}
    assert all(graph.shape(node.output) == () for node in graph.nodes if node.op == "Elementwise")  # no casts but these
    inputs = inputs_of(graph, low=-8.0, high=8.0)
    np.testing.assert_allclose(evaluate(graph, inputs)["y"], run_onnxruntime(model, inputs)[0], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", MODELS)
def test_a_graph_with_quantized_nodes_is_written_and_read_back(name: str) -> None:
    graph = import_onnx(MODELS[name])
    again = import_onnx(export_onnx(graph))
    assert again.nodes == graph.nodes


def test_the_report_names_what_was_expanded_and_what_tensors_stand_for() -> None:
    reports = {report.name: report.changes for report in convert(MODELS["product"])[1]}
    assert reports["quantised tensors"][0] == "w: int8, scale 0.01 to 0.05, zero point 0, 3 along axis 1"
    assert reports["quantised operators in floats"] == ["p"]
    assert reports["quantised and dequantised in one step"] == ["q with p/DequantizeLinear", "p with y"]
    reports = {report.name: report.changes for report in convert(MODELS["product to int32"])[1]}
    assert reports["quantised operators in integer steps"] == ["q", "p"]


PER_TENSOR = Quantization((float(np.float32(0.05)),), (7,), None, "uint8")
PER_CHANNEL = Quantization(tuple(of_channels(4)["ws"].tolist()), (0, 1, 2, 3), 1, "int8")
MOVES: dict[str, tuple[list[tuple[Any, ...]], dict[str, Any], Quantization | None]] = {
    "transposed": ([("Transpose", "q", "m", {"perm": [0, 2, 3, 1]})], {}, PER_CHANNEL.at(3)),
    "flattened": ([("Reshape", "q shape", "m", {})], {"shape": [4, 42]}, PER_CHANNEL.at(0)),
    "mixed up": ([("Reshape", "q shape", "m", {})], {"shape": [2, 84]}, None),
    "cut elsewhere": ([("Slice", "q a b c", "m", {})], {"a": [1], "b": [3], "c": [2]}, PER_CHANNEL),
    "cut": (
        [("Slice", "q a b c", "m", {})],
        {"a": [1], "b": [3], "c": [1]},
        dataclasses.replace(PER_CHANNEL, scale=PER_CHANNEL.scale[1:3], zero_point=(1, 2)),
    ),
    "joined": ([("Concat", "q q", "m", {"axis": 2})], {}, PER_CHANNEL),
    "longer": ([("Concat", "q q", "m", {"axis": 1})], {}, None),
}


def moved(nodes: list[tuple[Any, ...]], constants: dict[str, Any], axis: int | None) -> Graph:
    first = FIRST if axis is None else ("QuantizeLinear", "x ws wz", "q", {"axis": axis})
    given = {**SCALES, **of_channels(4), **{name: np.array(value, np.int64) for name, value in constants.items()}}
    last = ("Cast", "m", "y", {"to": TensorProto.FLOAT})
    graph = import_onnx(quantized([first, *nodes, last], given))
    assert graph.tensors["q"].quantization == (PER_TENSOR if axis is None else PER_CHANNEL)
    assert graph.tensors["y"].quantization is None  # numbers of steps, not what they stand for
    return graph


@pytest.mark.parametrize("name", MOVES)
def test_what_moves_elements_passes_on_what_they_stand_for(name: str) -> None:
    nodes, constants, expected = MOVES[name]
    if "cut" not in name:
        assert moved(nodes, constants, None).tensors["m"].quantization == PER_TENSOR
    assert moved(nodes, constants, 1).tensors["m"].quantization == expected


def test_constants_stay_known_as_integers_with_scales() -> None:
    nodes = [
        ("DequantizeLinear", "w ws wz", "d", {"axis": 0}),
        ("Transpose", "d", "t", {"perm": [1, 0, 2, 3]}),
        ("Add", "x t", "y", {}),
    ]
    graph = import_onnx(quantized(nodes, {**of_channels(4), "w": draw(np.int8, 4, 1, 7, 6)}))
    assert graph.tensors["t"].quantization == PER_CHANNEL
    steps = graph.constants["t"] / np.reshape(PER_CHANNEL.scale, (1, 4, 1, 1)) + np.reshape(range(4), (1, 4, 1, 1))
    np.testing.assert_array_equal(np.round(steps), draw(np.int8, 4, 1, 7, 6).swapaxes(0, 1))


def test_a_quantization_reads_as_words() -> None:
    assert str(PER_TENSOR) == "uint8, scale 0.05, zero point 7"
    assert str(PER_CHANNEL) == "int8, scale 0.01 to 0.05, zero point 0 to 3, 4 along axis 1"


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "a scale of 0": ({"s": np.float32(0)}, r"node 'q' \(QuantizeLinear\): scale 's' holds 0; a positive number"),
    "a negative scale": ({"s": np.float32(-0.5)}, r"scale 's' holds -0.5; a positive number"),
    "no number": ({"s2": np.float32(np.nan)}, r"node 'p' \(QLinearConv\): scale 's2' holds nan; a positive number"),
    "an infinite scale": ({"ws": np.full(6, np.inf, np.float32)}, "scale 'ws' holds inf; a positive number"),
    "a scale of integers": ({"s": np.int32(1)}, "scale 's' holds int32, not floats"),
    "too few scales": (
        {"ws": np.ones(5, np.float32)},
        r"a scale or zero point of shape \(5,\) does not fit .* \(6, 2, 3, 2\)",
    ),
    "too many zero points": ({"wz": np.zeros(7, np.int8)}, r"zero point of shape \(7,\) does not fit"),
    "several scales of the input": ({"s": np.ones(4, np.float32), "z": np.zeros(4, np.uint8)}, r"\(4,\) does not fit"),
    "a zero point of another type": ({"wz": np.zeros(6, np.uint8)}, "zero point 'wz' holds uint8, 'w' int8"),
    "a zero point of floats": ({"z": np.float32(0)}, "zero point 'z' is 'float32'"),
    "weights of floats": ({"w": CONV["w"].astype(np.float32)}, "'w' holds float32, not integers"),
    "a bias of another length": ({"b": np.zeros(5, np.int32)}, r"bias of shape \(5,\) does not fit 6 output channels"),
}


@pytest.mark.parametrize("name", BAD)
def test_parameters_that_make_no_sense_are_refused_when_importing(name: str) -> None:
    changed, text = BAD[name]
    nodes = [FIRST, ("QLinearConv", "q s z w ws wz s2 z2 b", "p", WINDOWS), LAST]
    model = quantized(nodes, {**CONV, "b": np.zeros(6, np.int32), **changed})
    with pytest.raises(ModelError, match=text) as caught:
        import_onnx(model)
    assert "\n" not in str(caught.value)
