"""Collects the nodes and constants of an ONNX model, with the shape of every tensor."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from runtime.errors import ModelError
from runtime.graph import Array, UniqueNames

OPSET = 17
IR_VERSION = 8
MAX_ELEMENTS = 2**31 - 1  # Caffe's own limit for one blob
MAX_CONSTANT_BYTES = 2**31 - 1  # of a model in all: protobuf's limit for the file that it becomes
MAX_AXES = 32  # and its limit for the axes of one

Shape = tuple[int, ...]


class OnnxWriter:
    """An ONNX model under construction; every tensor has a shape that is known and can exist."""

    def __init__(self, name: str, reserved: Iterable[str]) -> None:
        """`reserved` are the names of the network's own tensors."""
        self._name = name
        self._names = UniqueNames(reserved)
        self._node_names = UniqueNames()
        self._nodes: list[onnx.NodeProto] = []
        self._constants: list[TensorProto] = []
        self._constant_bytes = 0
        self._shapes: dict[str, Shape] = {}
        self._inputs: list[str] = []

    def shape(self, tensor: str) -> Shape:
        """Shape of a tensor that was written."""
        return self._shapes[tensor]

    def add_input(self, name: str, shape: Sequence[int]) -> None:
        """Adds a float32 input of the model."""
        self._shapes[name] = checked_shape(f"input '{name}'", shape)
        self._inputs.append(name)

    def constant(self, name: str, value: Array) -> str:
        """Adds a constant under a name like `name`; returns its name. ModelError where a file could not hold it."""
        name = self.unique(name)
        self._constant_bytes += value.nbytes
        if self._constant_bytes > MAX_CONSTANT_BYTES:
            raise ModelError(f"constant '{name}': all constants together exceed {MAX_CONSTANT_BYTES} bytes")
        self._constants.append(numpy_helper.from_array(np.ascontiguousarray(value), name))
        self._shapes[name] = tuple(value.shape)
        return name

    def node(
        self, op: str, name: str, inputs: Sequence[str], outputs: Mapping[str, Sequence[int]], attributes: Any
    ) -> None:
        """Adds a node under a name like `name`; `outputs` are its tensors with their shapes, which must be checked."""
        name = self._node_names.take(name)
        self._nodes.append(helper.make_node(op, inputs, list(outputs), name, **attributes))
        self._shapes.update({tensor: tuple(shape) for tensor, shape in outputs.items()})

    def unique(self, name: str) -> str:
        """A tensor name that is not taken yet; takes it."""
        return self._names.take(name)

    def model(self, outputs: Sequence[str]) -> onnx.ModelProto:
        """The finished model."""
        graph = helper.make_graph(
            self._nodes,
            self._name,
            [helper.make_tensor_value_info(name, TensorProto.FLOAT, self._shapes[name]) for name in self._inputs],
            [helper.make_tensor_value_info(name, TensorProto.FLOAT, self._shapes[name]) for name in outputs],
            self._constants,
        )
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION)


def checked_shape(where: str, shape: Sequence[int]) -> Shape:
    """The shape of a tensor that can exist; ModelError otherwise."""
    if len(shape) > MAX_AXES:
        raise ModelError(f"{where}: a tensor of {len(shape)} axes; Caffe's limit is {MAX_AXES}")
    if min(shape, default=1) < 1:
        raise ModelError(f"{where}: a tensor of shape {tuple(shape)} has no elements")
    if math.prod(shape) > MAX_ELEMENTS:
        raise ModelError(f"{where}: a tensor of shape {tuple(shape)} exceeds Caffe's limit of {MAX_ELEMENTS} elements")
    return tuple(shape)
