"""Random numbers are drawn once, at import: a plan computes the same in every run, and so does its oracle.

A node becomes nodes of ONNX that make of drawn constants what it makes of its own numbers. A seed decides the numbers,
which no other runtime draws of it; without one the name of the node's output does.
"""

import zlib
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from onnx import NodeProto, TensorProto, helper, numpy_helper

from runtime.errors import ModelError
from runtime.graph import Array
from runtime.importers.builder import GraphBuilder, check_size
from runtime.importers.onnx_node import OnnxNode
from runtime.importers.registry import StandIn

SEED = 1
CAST_LIKE = 15  # opset since which CastLike is


class Draw:
    """The nodes that stand in for one node, in order; each method returns the name of the tensor that it adds."""

    def __init__(self, proto: NodeProto, node: OnnxNode, builder: GraphBuilder) -> None:
        self.node, self.builder = node, builder
        self.x = proto.input[0] if proto.input else ""
        self.output = proto.output[0]
        self.nodes: list[NodeProto] = []
        seed = node.real("seed", 0.0)
        name = zlib.crc32(self.output.encode())
        own = [int(np.float32(seed).view(np.uint32))] if node.has("seed") else [SEED, name]
        self.random = np.random.default_rng(own)

    def shape(self) -> tuple[int, ...]:
        """That of the numbers: the attribute's, or the input's."""
        shape = self.builder.shape(self.node.input(0)) if self.x else self.node.integers("shape")
        if not (self.x or self.node.has("shape")) or min(shape, default=1) < 0:
            raise ModelError(f"{self.node}: shape {list(shape)} is none; a list of sizes is needed")
        check_size(self.node, shape)
        return shape

    def constant(self, value: Array) -> str:
        """A constant of the model."""
        name = self._name()
        return self.add("Constant", name, value=numpy_helper.from_array(value, name))

    def add(self, op: str, output: str, *inputs: str, **attributes: Any) -> str:
        """A node; an empty `output` is a new tensor."""
        output = output or self._name()
        self.nodes.append(helper.make_node(op, inputs, [output], output, **attributes))
        return output

    def result(self, value: str) -> None:
        """Writes the output: in the type that the node names, else in the input's."""
        if not self.node.has("dtype") and self.x and self.node.opset >= CAST_LIKE:
            self.add("CastLike", self.output, value, self.x)
        else:
            self.add("Cast", self.output, value, to=self.node.integer("dtype", TensorProto.FLOAT))

    def _name(self) -> str:
        return f"{self.output}/drawn{len(self.nodes)}"


def _normal(draw: Draw) -> None:
    mean, scale = draw.node.real("mean", 0.0), draw.node.real("scale", 1.0)
    draw.result(draw.constant((mean + scale * draw.random.standard_normal(draw.shape())).astype(np.float32)))


def _uniform(draw: Draw) -> None:
    low, high = draw.node.real("low", 0.0), draw.node.real("high", 1.0)
    draw.result(draw.constant((low + (high - low) * draw.random.random(draw.shape())).astype(np.float32)))


def _bernoulli(draw: Draw) -> None:
    """True where a number from 0 to 1 is below the input's probability."""
    uniform = draw.constant(draw.random.random(draw.shape(), np.float32))
    draw.result(draw.add("Less", "", uniform, draw.add("Cast", "", draw.x, to=TensorProto.FLOAT)))


def _multinomial(draw: Draw) -> None:
    """The greatest of log probability plus Gumbel noise is a class drawn by these probabilities."""
    shape, samples = draw.shape(), draw.node.integer("sample_size", 1)
    if len(shape) != 2 or samples < 1:
        raise ModelError(f"{draw.node}: {samples} sample(s) of an input of shape {shape}; rows of classes are needed")
    check_size(draw.node, (shape[0], samples, shape[1]))
    noise = draw.constant(draw.random.gumbel(size=(shape[0], samples, shape[1])).astype(np.float32))
    rows = draw.add("Reshape", "", draw.x, draw.constant(np.array([shape[0], 1, shape[1]])))
    noisy = draw.add("Add", "", draw.add("Cast", "", rows, to=TensorProto.FLOAT), noise)
    chosen = draw.add("ArgMax", "", noisy, axis=2, keepdims=0)
    draw.add("Cast", draw.output, chosen, to=draw.node.integer("dtype", TensorProto.INT32))


RANDOM: Mapping[str, Callable[[Draw], None]] = {
    "RandomNormal": _normal,
    "RandomNormalLike": _normal,
    "RandomUniform": _uniform,
    "RandomUniformLike": _uniform,
    "Bernoulli": _bernoulli,
    "Multinomial": _multinomial,
}


def drawn_nodes(proto: NodeProto, node: OnnxNode, builder: GraphBuilder) -> list[NodeProto]:
    """What stands in for a node that draws random numbers."""
    draw = Draw(proto, node, builder)
    RANDOM[node.op](draw)
    if node.unread():
        raise node.unsupported(node.unread()[0], node.attributes[node.unread()[0]], "no attribute of this name")
    return draw.nodes


STAND_INS = {("", op): StandIn("random numbers, the same in every run", drawn_nodes) for op in RANDOM}
