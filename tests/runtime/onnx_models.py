"""Small ONNX models for tests, and the comparison of what the importer makes of them with ONNX Runtime."""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

from runtime.families.resize.definition import RESIZE_COORDINATES, RESIZE_ROUNDING
from runtime.graph import Array, Graph
from runtime.importers.onnx_importer import import_onnx
from runtime.operators.table import check_graph
from runtime.oracle.evaluate import evaluate

NEWEST_RUNTIME_OPSET = 26  # the newest that the installed ONNX Runtime runs
IR_VERSION = 8


def random_array(shape: Sequence[int], seed: int = 0, low: float = -2.0, high: float = 2.0) -> Array:
    """Seeded float32 values, evenly spread."""
    return np.random.default_rng(seed).uniform(low, high, shape).astype(np.float32)


def onnx_model(
    nodes: Sequence[onnx.NodeProto],
    inputs: Mapping[str, Sequence[int | str]],
    outputs: Sequence[str],
    constants: Mapping[str, Any] | None = None,
    opset: int = 17,
) -> onnx.ModelProto:
    """A model of float32 inputs; integer constants become int64, others float32."""
    initializers = [numpy_helper.from_array(_typed(value), name) for name, value in (constants or {}).items()]
    graph = helper.make_graph(
        nodes,
        "test",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in inputs.items()],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs],
        initializers,
    )
    opsets = [helper.make_opsetid("", opset)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION)


def _typed(value: Any) -> Array:
    array = np.asarray(value)
    if array.dtype == np.bool_:
        return array
    return array.astype(np.int64 if array.dtype.kind in "iu" else np.float32)


def one_op(
    op: str,
    inputs: Mapping[str, Sequence[int]],
    constants: Mapping[str, Any] | None = None,
    opset: int = 17,
    order: Sequence[str] | None = None,
    outputs: Sequence[str] = ("y",),
    **attributes: Any,
) -> onnx.ModelProto:
    """A model of one operator; it reads its inputs, then its constants, unless `order` says otherwise."""
    names = [*inputs, *(constants or {})] if order is None else order
    node = helper.make_node(op, names, outputs, "node", **attributes)
    return onnx_model([node], inputs, outputs, constants, opset)


# Input extents -> output extents (integers) or scales, of both axes of `nearest_resizes`.
NEAREST_RESIZES: Mapping[tuple[int, int], tuple[float, float]] = {
    (68, 5): (36, 205),
    (52, 2): (182, 7),
    (13, 29): (29, 13),
    (1, 17): (9, 1),
    (28, 33): (0.6, 2.5),
    (41, 10): (1.7, 0.3),
}


def nearest_resizes(size: tuple[int, int], given: tuple[float, float]) -> onnx.ModelProto:
    """A model that resizes one image of `size` by every nearest mode, each an output, named by its modes."""
    form = "sizes" if isinstance(given[0], int) else "scales"
    order = ["x", "", "", "sizes"] if form == "sizes" else ["x", "", "scales"]
    nodes = [
        helper.make_node(
            "Resize",
            order,
            [f"{coordinates}-{rounding}"],
            f"{coordinates}-{rounding}",
            coordinate_transformation_mode=coordinates,
            nearest_mode=rounding,
        )
        for coordinates, rounding in itertools.product(RESIZE_COORDINATES, RESIZE_ROUNDING)
    ]
    shape = (2, 3) if form == "sizes" else (1, 1)
    return onnx_model(nodes, {"x": (2, 3, *size)}, [node.output[0] for node in nodes], {form: [*shape, *given]})


def run_onnxruntime(model: onnx.ModelProto, inputs: Mapping[str, Array]) -> list[Array]:
    """The model's outputs, without any optimization."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    options.log_severity_level = 4  # what it refuses it raises
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return [np.asarray(value) for value in session.run(None, dict(inputs))]


def inputs_of(graph: Graph, seed: int = 0, low: float = -2.0, high: float = 2.0) -> dict[str, Array]:
    """Seeded values of a graph's inputs."""
    return {name: random_array(graph.shape(name), seed + index, low, high) for index, name in enumerate(graph.inputs)}


def assert_matches_onnxruntime(
    model: onnx.ModelProto, seed: int = 0, low: float = -2.0, high: float = 2.0, tolerance: float = 1e-5
) -> Graph:
    """Imports and evaluates a model and compares every output with ONNX Runtime; returns the graph."""
    graph = import_onnx(model)
    check_graph(graph)
    inputs = inputs_of(graph, seed, low, high)
    values = evaluate(graph, inputs)
    declared = {value.name for value in model.graph.input}
    expected = run_onnxruntime(model, {name: value for name, value in inputs.items() if name in declared})
    for name, reference in zip(graph.outputs, expected, strict=True):
        assert values[name].shape == reference.shape == graph.shape(name)
        np.testing.assert_allclose(values[name], reference, rtol=tolerance, atol=tolerance, err_msg=name)
    return graph
