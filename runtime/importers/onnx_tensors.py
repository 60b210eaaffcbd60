"""The inputs and outputs that an ONNX model declares."""

import onnx

from runtime.frameworks.model_tensors import ModelTensor, ModelTensors, Sizes
from runtime.importers.inputs import element_dtype
from runtime.importers.scopes import constant_names


def onnx_tensors(model: onnx.ModelProto) -> ModelTensors:
    """Those of a model; an initializer that is listed among the inputs, as older files do, is none."""
    weights = set(constant_names(model.graph))
    inputs = (value for value in model.graph.input if value.name not in weights)
    return ModelTensors(tuple(map(_tensor, inputs)), tuple(map(_tensor, model.graph.output)))


def element_name(number: int) -> str:
    """`float32` for an ONNX element type; ONNX's own word where no graph has such a type."""
    if number == onnx.TensorProto.UNDEFINED:
        return ""
    dtype = element_dtype(number)
    names = {number: name for name, number in onnx.TensorProto.DataType.items()}
    return dtype.name if dtype is not None else names.get(number, str(number))


def _tensor(value: onnx.ValueInfoProto) -> ModelTensor:
    if not value.type.HasField("tensor_type"):
        return ModelTensor(value.name, None, value.type.WhichOneof("value") or "")
    declared = value.type.tensor_type
    return ModelTensor(value.name, _sizes(declared), element_name(declared.elem_type))


def _sizes(declared: onnx.TypeProto.Tensor) -> Sizes | None:
    """Sizes that are zero or negative stand for open ones, as some exporters write them."""
    if not declared.HasField("shape"):
        return None
    return tuple(dim.dim_value if dim.dim_value > 0 else dim.dim_param for dim in declared.shape.dim)
