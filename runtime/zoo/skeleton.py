"""Represents a network whose parameters have shapes but no values yet, and answers questions about its structure."""

import collections
import dataclasses
import enum
from collections.abc import Collection, Iterator, Mapping

import onnx
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, ValueInfoProto, helper, numpy_helper

from runtime.graph import Array

IR_VERSION = 8

# Operators that a parameter may pass through on its way to the operator that uses it.
VIEWS = {"Unsqueeze", "Reshape", "Identity"}
# Operators f with f(k x) = k f(x) for k > 0, which may stand between the last layer and the output.
HOMOGENEOUS = {
    "Relu", "Flatten", "Reshape", "Squeeze", "Dropout", "Identity", "GlobalAveragePool", "AveragePool",
}  # fmt: skip

Shapes = Mapping[str, tuple[int | str, ...]]


class Follower(enum.Enum):
    """What kind of operator reads a layer's values, which decides how they are scaled."""

    LINEAR = "linear"
    RELU = "relu"
    CLIP = "clip"
    OUTPUT = "output"


@dataclasses.dataclass(frozen=True)
class Skeleton:
    """A network without weights: nodes in order, shapes of the parameters, and constants that keep their values.

    Input and output shapes have the batch first. `integers` are the inputs of int64; all else is float32.
    """

    name: str
    opset: int
    nodes: list[NodeProto]
    parameters: dict[str, tuple[int, ...]]
    constants: dict[str, Array]
    inputs: Shapes
    outputs: Shapes
    integers: frozenset[str] = frozenset()

    def model(self, values: Mapping[str, Array], doc: str = "") -> ModelProto:
        """The network with these parameter values."""
        return onnx_model(self, self.nodes, self.inputs, {**self.constants, **values}, infos(self.outputs), doc)

    def ranks(self) -> dict[str, int]:
        """Number of dimensions of every tensor that shape inference reaches."""
        inputs = {**self.inputs, **self.parameters}
        model = onnx_model(self, self.nodes, inputs, self.constants, infos(self.outputs))
        graph = onnx.shape_inference.infer_shapes(model).graph
        declared = [*graph.input, *graph.value_info, *graph.output]
        return {info.name: len(info.type.tensor_type.shape.dim) for info in declared}


class Topology:
    """Who produces and who reads each tensor of a skeleton."""

    def __init__(self, skeleton: Skeleton) -> None:
        self._nodes = skeleton.nodes
        self._outputs = set(skeleton.outputs)
        self._parameter_behind = {name: name for name in skeleton.parameters}
        self.readers: dict[str, list[NodeProto]] = collections.defaultdict(list)
        self.producer: dict[str, NodeProto] = {}
        for node in skeleton.nodes:
            for name in node.input:
                self.readers[name].append(node)
            self.producer |= dict.fromkeys(node.output, node)
            if self.is_view_of_parameter(node):
                self._parameter_behind[node.output[0]] = self._parameter_behind[node.input[0]]

    def parameter(self, node: NodeProto, index: int) -> str | None:
        """Returns the parameter that an input is, directly or reshaped; None where it is absent or an activation."""
        return self._parameter_behind.get(node.input[index]) if index < len(node.input) else None

    def is_view_of_parameter(self, node: NodeProto) -> bool:
        """Whether a node only reshapes a parameter."""
        return node.op_type in VIEWS and node.input[0] in self._parameter_behind

    def parameter_uses(self) -> Iterator[tuple[str, NodeProto, int]]:
        """Yields each parameter with the node and input index that use it; nodes that only reshape it do not count."""
        for node in self._nodes:
            for index in range(0 if self.is_view_of_parameter(node) else len(node.input)):
                name = self.parameter(node, index)
                if name is not None:
                    yield name, node, index

    def follower(self, tensor: str) -> Follower:
        """Returns what reads a layer's output first, behind sums and products with a parameter."""
        if self.end(tensor) is not None:
            return Follower.OUTPUT
        readers = self.readers[tensor]
        if sorted(reader.op_type for reader in readers) == ["HardSigmoid", "Mul"]:  # hard swish
            return Follower.RELU
        if len(readers) != 1:
            return Follower.LINEAR
        (node,) = readers
        if node.op_type in ("Mul", "Add") and any(name in self._parameter_behind for name in node.input):
            return self.follower(node.output[0])
        return {"Relu": Follower.RELU, "Clip": Follower.CLIP}.get(node.op_type, Follower.LINEAR)

    def end(self, tensor: str) -> str | None:
        """Returns the softmax's input or the graph's output that a tensor reaches by HOMOGENEOUS operators only."""
        while tensor not in self._outputs:
            readers = self.readers[tensor]
            if [node.op_type for node in readers] == ["Softmax"]:
                return tensor
            if len(readers) != 1 or readers[0].op_type not in HOMOGENEOUS:
                return None
            tensor = readers[0].output[0]
        return tensor


def onnx_model(
    skeleton: Skeleton,
    nodes: list[NodeProto],
    inputs: Shapes,
    constants: Mapping[str, Array],
    outputs: list[ValueInfoProto],
    doc: str = "",
) -> ModelProto:
    """A model of these nodes, with the name and the operator set of a skeleton."""
    graph: GraphProto = helper.make_graph(
        nodes, skeleton.name, infos(inputs, skeleton.integers), outputs, doc_string=doc
    )
    opsets = [helper.make_opsetid("", skeleton.opset)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION, producer_name="farm")
    for name, value in constants.items():  # one by one, as each is copied and may be hundreds of megabytes
        model.graph.initializer.append(numpy_helper.from_array(value, name))
    return model


def infos(shapes: Shapes, integers: Collection[str] = ()) -> list[ValueInfoProto]:
    """Declarations of tensors of float32, those named as integers of int64."""
    return [
        helper.make_tensor_value_info(name, TensorProto.INT64 if name in integers else TensorProto.FLOAT, shape)
        for name, shape in shapes.items()
    ]
