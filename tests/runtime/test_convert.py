"""Whole networks compute what ONNX Runtime computes after import and all passes, and keep no operator that fuses."""

from collections import Counter
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper

from runtime.convert import convert
from runtime.errors import ModelError
from runtime.exporters.onnx_exporter import export_onnx
from runtime.graph import Array, Graph
from runtime.importers.onnx_importer import import_onnx
from runtime.oracle.evaluate import evaluate
from runtime.zoo import catalogue
from runtime.zoo.reweight import light_models
from tests.runtime.onnx_models import onnx_model
from tests.runtime.test_export import assert_same

SIZES = {"inception_v3": 75}
FUSED_AWAY = {"BatchNormalization", "Relu", "Clip", "Add", "Identity", "FullyConnected", "Pad"}


def noise(graph: Graph, seed: int = 0) -> dict[str, Array]:
    random = np.random.default_rng(seed)
    return {name: random.uniform(-1, 1, graph.shape(name)).astype(np.float32) for name in graph.inputs}


def assert_matches(model: onnx.ModelProto, graph: Graph) -> None:
    """Checks that outputs agree with ONNX Runtime's within rounding, and depend on the input."""
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    results = []
    for seed in (0, 1):
        inputs = noise(graph, seed)
        values = evaluate(graph, inputs)
        for name, reference in zip(graph.outputs, session.run(graph.outputs, inputs), strict=True):
            results.append(reference)
            assert np.abs(values[name] - reference).max() <= 1e-4 * np.abs(reference).max()
    assert np.abs(results[0] - results[-1]).max() > 1e-2 * np.abs(results[0]).max()


def operators(graph: Graph) -> Counter[str]:
    return Counter(node.op for node in graph.nodes)


def zoo_model(name: str, **arguments: Any) -> tuple[onnx.ModelProto, Graph]:
    model = catalogue.build(name, **arguments)
    (value,) = model.graph.input
    image = tuple(dim.dim_value for dim in value.type.tensor_type.shape.dim[1:])
    graph, _ = convert(model, {value.name: (1, *image)})
    return model, graph


@pytest.mark.slow
@pytest.mark.parametrize("name", catalogue.names()[:5])  # of convolutions; a transformer keeps its sums
def test_a_zoo_network_computes_the_same_after_conversion_and_keeps_nothing_that_fuses(name: str) -> None:
    model, graph = zoo_model(name, width=0.25, size=SIZES.get(name, 64))
    assert_matches(model, graph)
    assert not operators(graph).keys() & FUSED_AWAY
    assert_same(import_onnx(export_onnx(graph)), graph)


def test_the_onnx_package_brings_nine_light_models() -> None:
    assert len(light_models()) == 9


@pytest.mark.slow
@pytest.mark.parametrize("name", ["squeezenet", "shufflenet", "inception_v2"])
def test_a_light_model_with_its_stored_weights_computes_the_same(name: str) -> None:
    model = onnx.load(light_models()[name])
    graph, _ = convert(model)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    inputs = noise(graph)
    np.testing.assert_allclose(
        evaluate(graph, inputs)[graph.outputs[0]], session.run(graph.outputs, inputs)[0], rtol=1e-4
    )


def test_shufflenets_reshapes_and_transpositions_become_channel_shuffles() -> None:
    graph, _ = convert(onnx.load(light_models()["shufflenet"]))
    assert operators(graph)["ChannelShuffle"] == 16
    assert operators(graph)["Transpose"] == 0


def test_reports_begin_with_what_import_folded() -> None:
    _, reports = convert(onnx.load(light_models()["squeezenet"]))
    assert (reports[0].name, len(reports[0].changes)) == ("constants at import", 39)
    changes = {report.name: len(report.changes) for report in reports[1:] if report.changes}
    assert changes == {"identity removal": 1, "activation fusion": 26}


@pytest.mark.slow
def test_any_tensor_may_be_an_output_and_keeps_its_name_for_validation() -> None:
    """Any tensor of the model may be an output, and keeps its name through all passes."""
    model = catalogue.build("mobilenet_v2", width=0.25, size=32)
    value = model.graph.input[0].name
    names = [node.output[0] for node in model.graph.node if node.op_type in {"Conv", "Clip", "Add"}][:9]
    graph, _ = convert(model, {value: (1, 3, 32, 32)}, names)
    assert graph.outputs == names
    for node in names:
        model.graph.output.append(onnx.helper.make_empty_tensor_value_info(node))
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    inputs = noise(graph)
    values = evaluate(graph, inputs)
    for name, reference in zip(names, session.run(names, inputs), strict=True):
        assert np.abs(values[name] - reference).max() <= 1e-4 * np.abs(reference).max()


@pytest.mark.slow
def test_a_given_batch_is_used_and_another_image_size_is_refused() -> None:
    model = catalogue.build("squeezenet_v11", width=0.25, size=64)
    graph, _ = convert(model, {"input": (3, 3, 64, 64)})
    assert graph.shape(graph.outputs[0])[0] == 3
    assert_matches(model, graph)
    with pytest.raises(ModelError, match=r"input 'input': the given shape \(1, 3, 32, 32\) contradicts .* \(N, 3, 64"):
        convert(model, {"input": (1, 3, 32, 32)})


CUT = {"starts": [0], "ends": [0], "axes": [1]}
IMAGE = {"x": (1, 3, 4, 4)}
CUT_NODE = helper.make_node("Slice", ["x", *CUT], ["cut"], "cutter")
EMPTY: dict[str, tuple[list[onnx.NodeProto], dict[str, Any], str]] = {
    "an output": (
        [helper.make_node("Slice", ["x", *CUT], ["y"], "cutter")],
        CUT,
        r"node 'cutter' \(Slice\): tensor 'y' of shape \(1, 0, 4, 4\) has no elements; supported: at least one",
    ),
    "between operators": (
        [CUT_NODE, helper.make_node("Relu", ["cut"], ["y"])],
        CUT,
        r"node 'cutter' \(Slice\): tensor 'cut' of shape",
    ),
    "a constant": (
        [helper.make_node("Add", ["x", "k"], ["y"], "sum")],
        {"k": np.zeros((0, 3, 1, 1), np.float32)},
        r"node 'sum' \(Add\): tensor 'k' of shape \(0, 3, 1, 1\) has no elements",
    ),
    "filters": (
        [helper.make_node("Conv", ["x", "k"], ["y"], "conv")],
        {"k": np.zeros((0, 3, 1, 1), np.float32)},
        r"node 'conv' \(Conv\): tensor 'k' of shape \(0, 3, 1, 1\) has no elements",
    ),
    "a constant output": (
        [helper.make_node("Neg", ["k"], ["y"], "neg")],
        {"k": np.zeros((2, 0), np.float32)},
        r"tensor 'y' of shape \(2, 0\) has no elements",
    ),
    "the largest of none": (
        [helper.make_node("ReduceMax", ["k"], ["m"], "largest"), helper.make_node("Add", ["x", "m"], ["y"])],
        {"k": np.zeros((0,), np.float32)},
        r"node 'largest' \(ReduceMax\): its constant inputs do not fit",
    ),
}


@pytest.mark.parametrize(("nodes", "constants", "text"), EMPTY.values(), ids=EMPTY)
def test_a_tensor_without_elements_is_refused(
    nodes: list[onnx.NodeProto], constants: dict[str, Any], text: str
) -> None:
    with pytest.raises(ModelError, match=text):
        convert(onnx_model(nodes, IMAGE, ["y"], constants))


def test_shape_arithmetic_of_a_tensor_without_elements_is_folded() -> None:
    nodes = [
        CUT_NODE,
        helper.make_node("Shape", ["cut"], ["shape"]),
        helper.make_node("Cast", ["shape"], ["sizes"], to=onnx.TensorProto.FLOAT),
        helper.make_node("ReduceSum", ["sizes"], ["sum"], keepdims=0),
        helper.make_node("Add", ["x", "sum"], ["y"]),
    ]
    graph, _ = convert(onnx_model(nodes, IMAGE, ["y"], CUT))
    assert [node.op for node in graph.nodes] == ["Add"]
