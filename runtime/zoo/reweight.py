"""Replaces the weights of any convolutional ONNX model by well-scaled seeded ones.

It serves models that are stored without their trained weights, such as the nine that come with the onnx package. Their
weights are all alike (0.02, written by ConstantOfShape), so that their outputs hardly depend on the input and would
hide nearly every error of an implementation.
"""

import dataclasses
from pathlib import Path

import numpy as np
import onnx
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, ValueInfoProto, helper, numpy_helper

from runtime.errors import ConfigError, ModelError
from runtime.graph import Array
from runtime.zoo.calibration import calibrated_parameters
from runtime.zoo.skeleton import Skeleton, Topology

PREFIX = "light_"
FLOAT = np.dtype(np.float32)

# The operators whose parameters are replaced; those of others keep their values.
REPLACEABLE = {"Conv", "Gemm", "BatchNormalization", "Mul", "Add", "PRelu"}


def light_models() -> dict[str, Path]:
    """The networks without trained weights in the installed onnx package: name (`vgg19`, say) to file."""
    folder = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
    files = {path.stem.removeprefix(PREFIX): path for path in sorted(folder.glob(f"{PREFIX}*.onnx"))}
    if not files:
        raise ConfigError(f"{folder}: no models there, install the onnx package with its test data")
    return files


def reweight(model: ModelProto, seed: int = 0) -> ModelProto:
    """The same network with the float32 parameters of REPLACEABLE operators drawn anew; deterministic for a seed.

    What ConstantOfShape and Constant nodes produced becomes initializers. Input and output names and shapes stay as
    they are. Raises ModelError where the inputs are no images of a fixed size, or two layers share a parameter.
    """
    skeleton = _keep_other_parameters(_skeleton(model))
    return skeleton.model(calibrated_parameters(skeleton, seed))


def _skeleton(model: ModelProto) -> Skeleton:
    graph = model.graph
    constants = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    inputs = {info.name: _shape(info) for info in graph.input if info.name not in constants}
    nodes = _without_constants(graph, constants)
    used = {name for node in nodes for name in node.input} | {info.name for info in graph.output}
    constants = {name: value for name, value in constants.items() if name in used}
    return Skeleton(
        name=graph.name,
        opset=_opset(model),
        nodes=nodes,
        parameters={name: value.shape for name, value in constants.items() if value.dtype == FLOAT and value.ndim},
        constants=constants,
        inputs=inputs,
        outputs={info.name: _shape(info) for info in graph.output},
    )


def _keep_other_parameters(skeleton: Skeleton) -> Skeleton:
    """Moves the parameters that an operator outside REPLACEABLE uses to the constants, whose values stay."""
    replaced: dict[str, bool] = {}
    for name, node, _ in Topology(skeleton).parameter_uses():
        replaced[name] = replaced.get(name, True) and node.op_type in REPLACEABLE
    parameters = {name: shape for name, shape in skeleton.parameters.items() if replaced.get(name)}
    constants = {name: value for name, value in skeleton.constants.items() if name not in parameters}
    return dataclasses.replace(skeleton, parameters=parameters, constants=constants)


def _without_constants(graph: GraphProto, constants: dict[str, Array]) -> list[NodeProto]:
    """The nodes that compute; the value of every other one is added to `constants`."""
    computing = []
    for node in graph.node:
        value = _constant_value(node, constants)
        if value is None:
            computing.append(node)
        else:
            constants[node.output[0]] = value
    return computing


def _constant_value(node: NodeProto, constants: dict[str, Array]) -> Array | None:
    attributes = {attribute.name: helper.get_attribute_value(attribute) for attribute in node.attribute}
    if node.op_type == "ConstantOfShape" and node.input[0] in constants:
        tensor = attributes.get("value")
        fill = np.zeros(1, FLOAT) if tensor is None else numpy_helper.to_array(tensor)
        return np.broadcast_to(fill.reshape(()), tuple(constants[node.input[0]]))
    if node.op_type == "Constant" and isinstance(attributes.get("value"), TensorProto):
        return numpy_helper.to_array(attributes["value"])
    return None


def _shape(info: ValueInfoProto) -> tuple[int | str, ...]:
    dims = info.type.tensor_type.shape.dim
    return tuple(dim.dim_value if dim.HasField("dim_value") else dim.dim_param for dim in dims)


def _opset(model: ModelProto) -> int:
    for entry in model.opset_import:
        if entry.domain in ("", "ai.onnx"):
            return int(entry.version)
    raise ModelError(f"{model.graph.name}: the model imports no opset of the standard operators")
