"""Weights of four bits, read as eight: the numbers are the same, and so is what DequantizeLinear makes of them."""

from collections.abc import Mapping

import numpy as np
from onnx import GraphProto, TensorProto, numpy_helper

from runtime.importers.external_data import with_data
from runtime.importers.scopes import names_read

WIDER: Mapping[int, type] = {TensorProto.INT4: np.int8, TensorProto.UINT4: np.uint8}


def widened(constants: Mapping[str, TensorProto], graph: GraphProto) -> dict[str, TensorProto]:
    """The constants, with those of four bits in eight that nothing but DequantizeLinear reads."""
    others = {name for node in graph.node if node.op_type != "DequantizeLinear" for name in names_read(node)}
    others |= {value.name for value in graph.output}
    return {
        name: _wide(tensor, name) if tensor.data_type in WIDER and name not in others else tensor
        for name, tensor in constants.items()
    }


def _wide(tensor: TensorProto, name: str) -> TensorProto:
    try:
        values = numpy_helper.to_array(with_data(tensor, name))
    except (ValueError, TypeError, KeyError):
        return tensor  # whoever reads its value says what is wrong
    return numpy_helper.from_array(values.astype(WIDER[tensor.data_type]), name)
