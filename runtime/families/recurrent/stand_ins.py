"""DynamicQuantizeLSTM, as ONNX Runtime's quantiser writes an LSTM: one of dequantised weights stands in for it.

ONNX Runtime quantises the input and the hidden state of every step, too, to eight bits of their range. They stay floats
here: results differ by that rounding, and are nearer to those of the network before it was quantised.
"""

import math
from typing import Any

import numpy as np
from onnx import NodeProto, TensorProto, helper, numpy_helper

from runtime.errors import ModelError
from runtime.importers.builder import GraphBuilder
from runtime.importers.onnx_node import OnnxNode
from runtime.importers.registry import StandIn

_WEIGHTS = ((1, 8, 9), (2, 10, 11))  # inputs: integers, scale, zero point


def dequantized_nodes(proto: NodeProto, node: OnnxNode, builder: GraphBuilder) -> list[NodeProto]:
    """The nodes that make its weights, and an LSTM of these; what it lacks LSTM refuses."""
    nodes: list[NodeProto] = []
    weights = [_weights(proto, node, builder, nodes, *places) for places in _WEIGHTS]
    layer = NodeProto()
    layer.CopyFrom(proto)
    layer.op_type, layer.domain = "LSTM", ""
    layer.input[:] = [proto.input[0], *weights, *proto.input[3:8]]
    return [*nodes, layer]


def _weights(
    proto: NodeProto, node: OnnxNode, builder: GraphBuilder, nodes: list[NodeProto], index: int, scale: int, zero: int
) -> str:
    """[directions, gates, inputs] as LSTM has them, of integers [directions, inputs, gates]."""
    x, shape = proto.input[index], builder.shape(node.input(index))
    if len(shape) != 3:
        raise ModelError(f"{node}: '{x}' has shape {shape}; [directions, inputs, 4 x hidden_size] is needed")

    def add(op: str, *inputs: str, **attributes: Any) -> str:
        name = f"{node.label}/{x}/{op}{len(nodes)}"
        nodes.append(helper.make_node(op, inputs, [name], name, **attributes))
        return name

    def spread(parameter: int) -> str:
        """A scale or zero point of each direction, or of each of its columns, as floats that broadcast."""
        own = builder.shape(node.input(parameter))
        columns = {shape[0]: 1, shape[0] * shape[2]: shape[2]}.get(math.prod(own))
        if columns is None:
            raise ModelError(f"{node}: '{node.input(parameter)}' of shape {own} does not fit {shape}")
        wide = numpy_helper.from_array(np.array([shape[0], 1, columns]))
        value = add("Cast", proto.input[parameter], to=TensorProto.FLOAT)
        return add("Reshape", value, add("Constant", value=wide))

    whole = add("Cast", x, to=TensorProto.FLOAT)
    centred = add("Sub", whole, spread(zero)) if node.optional(zero) else whole
    return add("Transpose", add("Mul", centred, spread(scale)), perm=[0, 2, 1])


STAND_INS = {
    ("com.microsoft", "DynamicQuantizeLSTM"): StandIn("quantised layers that compute in floats", dequantized_nodes)
}
