"""Writes a float model as one of QuantizeLinear and DequantizeLinear round its layers (QDQ), by ONNX Runtime."""

import dataclasses
import logging
from collections.abc import Iterator, Mapping, Sequence

import ml_dtypes
import numpy as np
import onnx
from onnx import NodeProto, TensorProto, helper, numpy_helper

from farm.quantization.layers import OPERATORS, WEIGHTED, LayerNodes
from farm.quantization.methods import Range
from runtime.graph import Array

DEQUANTIZED = "_DequantizeLinear_Output"  # ends the names that ONNX Runtime gives
GROUP = 32  # weights that share a scale, of four bits
LARGEST = {"int8": 127, "int4": 7}
PRODUCER = "farm quantize"


def quantized(
    model: onnx.ModelProto,
    layers: Sequence[LayerNodes],
    ranges: Mapping[str, Range],
    per_channel: bool,
    reduce_range: bool = False,
) -> onnx.ModelProto:
    """The model with these layers in eight bits: activations unsigned with a zero point, weights signed without.

    `ranges` are of all activations that the layers read and write; `reduce_range`: weights have seven bits.
    """
    from onnxruntime.quantization.calibrate import CalibrationMethod, TensorsData
    from onnxruntime.quantization.qdq_quantizer import QDQQuantizer
    from onnxruntime.quantization.quant_utils import QuantType

    given = {name: (np.float32(low), np.float32(high)) for name, (low, high) in ranges.items()}
    taken = onnx.ModelProto()
    taken.CopyFrom(model)
    quantizer = QDQQuantizer(
        *(taken, per_channel, reduce_range, QuantType.QInt8, QuantType.QUInt8),
        TensorsData(CalibrationMethod.MinMax, given),
        [node for layer in layers for node in layer.nodes],
        [],
        list(OPERATORS),
        {},
    )
    level = logging.getLogger().level
    logging.getLogger().setLevel(logging.ERROR)  # it tells of tensors that are no floats
    try:
        quantizer.quantize_model()
    finally:
        logging.getLogger().setLevel(level)
    quantizer.model.topological_sort()
    return _finished(quantizer.model.model)


def weights_only(model: onnx.ModelProto, layers: Sequence[LayerNodes], bits: str) -> onnx.ModelProto:
    """The model with the weights of these layers as integers, and all that it computes in float.

    `int8`: a scale for each channel of the output; `int4`: for each `GROUP` weights of one that are multiplied with
    neighbouring values, where these can be parted so, else for each channel.
    """
    made = onnx.ModelProto()
    made.CopyFrom(model)
    graph = made.graph
    floats = {each.name: each for each in graph.initializer}
    chosen = {name for layer in layers for name in layer.nodes}
    done: dict[str, str] = {}
    for node in list(graph.node):
        weight = node.input[1] if len(node.input) > 1 else ""
        if node.name in chosen and node.op_type in WEIGHTED and weight in floats:
            if weight not in done:
                nodes, tensors = _dequantization(node, floats[weight], bits)
                graph.node.extend(nodes)
                graph.initializer.extend(tensors)
                done[weight] = nodes[-1].output[0]
            node.input[1] = done[weight]
    _first(graph, list(done.values()))
    read = {name for node in graph.node for name in node.input}
    kept = [each for each in graph.initializer if each.name in read]
    del graph.initializer[:]
    graph.initializer.extend(kept)
    return _finished(made)


@dataclasses.dataclass(frozen=True)
class QuantizedWeight:
    """A weight of a quantised model.

    Attributes:
        tensor: the name of its integers.
        scales, zero: a value for each weight, or ones that broadcast.
    """

    tensor: str
    integers: Array
    scales: Array
    zero: Array

    @property
    def centred(self) -> Array:
        """The integers less the zero point, as floats."""
        return self.integers.astype(np.float32) - self.zero


def integer_weights(model: onnx.ModelProto) -> dict[str, QuantizedWeight]:
    """The weights of a quantised model, by the names that they had as floats."""
    values = {each.name: each for each in model.graph.initializer}
    found = {}
    for node in added_dequantizations(model):
        if node.input[0] in values:
            integers, scale, *zero = (numpy_helper.to_array(values[name]) for name in node.input)
            given = {each.name: each.i for each in node.attribute}
            axis, group = given.get("axis", 1), given.get("block_size", 0)
            scales, zeros = (
                _spread(each.astype(np.float32), axis, group, integers.ndim)
                for each in (scale, zero[0] if zero else np.zeros_like(scale))
            )
            found[dequantized_name(node.output[0])] = QuantizedWeight(node.input[0], integers, scales, zeros)
    return found


def dequantized_weights(model: onnx.ModelProto) -> dict[str, Array]:
    """The weights of a quantised model as floats again, by the names that they had."""
    return {name: weight.centred * weight.scales for name, weight in integer_weights(model).items()}


def _spread(parameter: Array, axis: int, group: int, rank: int) -> Array:
    """A scale or zero point with a value for each weight, or one that broadcasts."""
    if group:
        return np.repeat(parameter, group, axis)
    return _along(parameter, axis, rank) if parameter.ndim else parameter


def dequantized_name(name: str) -> str:
    """The tensor that what a DequantizeLinear writes stands for."""
    return name.removesuffix(DEQUANTIZED)


def _first(graph: onnx.GraphProto, outputs: Sequence[str]) -> None:
    """Puts the nodes that write these outputs before all others."""
    nodes = sorted(graph.node, key=lambda node: node.output[0] not in outputs)
    kept = [NodeProto.FromString(node.SerializeToString()) for node in nodes]
    del graph.node[:]
    graph.node.extend(kept)


def _dequantization(node: NodeProto, tensor: TensorProto, bits: str) -> tuple[list[NodeProto], list[TensorProto]]:
    """The node that makes floats of a weight's integers, and these with their scales."""
    weight = numpy_helper.to_array(tensor)
    channel, reduced = _axes(node, weight.ndim)
    is_grouped = bits == "int4" and weight.shape[reduced] % GROUP == 0
    scales = _scales(weight, channel, reduced, LARGEST[bits], GROUP if is_grouped else 0)
    wide = np.repeat(scales, GROUP, reduced) if is_grouped else _along(scales, channel, weight.ndim)
    whole = np.clip(np.rint(weight / wide), -LARGEST[bits], LARGEST[bits])
    name, attributes = tensor.name, {"axis": reduced, "block_size": GROUP} if is_grouped else {"axis": channel}
    inputs = [f"{name}_quantized", f"{name}_scale"]
    dequantize = helper.make_node("DequantizeLinear", inputs, [name + DEQUANTIZED], f"{name}_DequantizeLinear")
    dequantize.attribute.extend(helper.make_attribute(key, value) for key, value in attributes.items())
    integers = whole.astype(ml_dtypes.int4 if bits == "int4" else np.int8)
    return [dequantize], [
        numpy_helper.from_array(integers, inputs[0]),
        numpy_helper.from_array(scales.astype(np.float32), inputs[1]),
    ]


def _axes(node: NodeProto, rank: int) -> tuple[int, int]:
    """Of a weight: the axis of the output's channels, and one that is summed over."""
    if node.op_type in ("Conv", "ConvTranspose"):
        return (0, 1) if node.op_type == "Conv" else (1, 0)
    turned = any(each.name == "transB" and each.i for each in node.attribute)
    return (rank - 2, rank - 1) if turned else (rank - 1, max(rank - 2, 0))


def _scales(weight: Array, channel: int, reduced: int, largest: int, group: int) -> Array:
    """What one step is worth: [channels], or the weight's shape with a group as one of the reduced axis."""
    if group:
        parted = list(weight.shape)
        parted[reduced : reduced + 1] = [weight.shape[reduced] // group, group]
        peak = np.abs(weight.reshape(parted)).max(reduced + 1)
    else:
        peak = np.abs(weight).max(tuple(axis for axis in range(weight.ndim) if axis != channel))
    return np.where(peak > 0, peak / largest, 1.0)


def _along(scales: Array, axis: int, rank: int) -> Array:
    return scales.reshape([-1 if each == axis else 1 for each in range(rank)])


def _finished(model: onnx.ModelProto) -> onnx.ModelProto:
    model.producer_name, model.producer_version = PRODUCER, ""
    del model.graph.value_info[:]
    return model


def added_dequantizations(model: onnx.ModelProto) -> Iterator[NodeProto]:
    """The DequantizeLinear nodes of a model that this module wrote."""
    return (node for node in model.graph.node if node.op_type == "DequantizeLinear")
