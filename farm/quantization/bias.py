"""Corrects biases by the mean that rounding its weights adds to a layer's output: E[(W' - W) x], over samples."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import NodeProto, numpy_helper

from farm.model.reference_process import ReferenceProcess
from farm.quantization.layers import LayerNodes
from farm.quantization.qdq import dequantized_weights

Array = npt.NDArray[Any]

BIASED = ("Conv", "ConvTranspose", "Gemm")
ERROR, ADDED = "{}/weight_error", "{}/added_error"


def bias_errors(
    process: ReferenceProcess,
    model: onnx.ModelProto,
    quantised: onnx.ModelProto,
    layers: Sequence[LayerNodes],
    samples: Iterable[Mapping[str, Array]],
) -> dict[str, Array]:
    """What the weights' errors add to each channel on average, by the name of the bias that can take it away.

    `quantised` is the model with all `layers` quantised. A bias that several nodes read has none.
    """
    made = onnx.ModelProto()
    made.CopyFrom(model)
    graph = made.graph
    floats = {each.name: numpy_helper.to_array(each) for each in graph.initializer}
    rounded = dequantized_weights(quantised)
    nodes = _biased_nodes(model, layers, floats, rounded)
    del graph.output[:]
    for node in nodes:
        error = rounded[node.input[1]] - floats[node.input[1]]
        graph.initializer.append(numpy_helper.from_array(error.astype(np.float32), ERROR.format(node.name)))
        graph.node.append(_measured(node))
        graph.output.append(onnx.ValueInfoProto(name=ADDED.format(node.name)))
    if not nodes:
        return {}
    content = made.SerializeToString()
    found = [{name: _mean(value) for name, value in process.run(content, inputs).items()} for inputs in samples]
    return {node.input[2]: np.mean([each[ADDED.format(node.name)] for each in found], 0) for node in nodes}


def with_biases(model: onnx.ModelProto, layers: Sequence[LayerNodes], errors: Mapping[str, Array]) -> onnx.ModelProto:
    """The float model whose biases take these errors away, of these layers alone."""
    chosen = {name for layer in layers for name in layer.tensors} & errors.keys()
    made = onnx.ModelProto()
    made.CopyFrom(model)
    for tensor in made.graph.initializer:
        if tensor.name in chosen:
            bias = numpy_helper.to_array(tensor)
            tensor.CopyFrom(numpy_helper.from_array((bias - errors[tensor.name]).astype(np.float32), tensor.name))
    return made


def _biased_nodes(
    model: onnx.ModelProto, layers: Sequence[LayerNodes], floats: Mapping[str, Array], rounded: Mapping[str, Array]
) -> list[NodeProto]:
    chosen = {name for layer in layers for name in layer.nodes}
    readers = Counter(name for node in model.graph.node for name in node.input)
    return [
        node
        for node in model.graph.node
        if node.name in chosen
        and node.op_type in BIASED
        and len(node.input) == 3
        and node.input[1] in rounded
        and node.input[2] in floats
        and readers[node.input[2]] == 1
        and floats[node.input[2]].ndim == 1
        and all(each.name != "beta" or each.f == 1.0 for each in node.attribute)
    ]


def _measured(node: NodeProto) -> NodeProto:
    """The node with its weight's error in place of the weight, and no bias."""
    product = NodeProto()
    product.CopyFrom(node)
    product.name = product.output[0] = ADDED.format(node.name)
    product.input[:] = [node.input[0], ERROR.format(node.name)]
    return product


def _mean(value: Array) -> Array:
    """Of each channel."""
    return np.asarray(value.mean(tuple(axis for axis in range(value.ndim) if axis != 1)))
