"""A model that grows node by node; every tensor's value is known, since ONNX Runtime computes each node as it comes."""

import random
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from farm.model.oracle import run_stages
from runtime.graph import Array
from tests.runtime.onnx_models import run_onnxruntime

OPSET = 21
IR_VERSION = 10
MOST_ELEMENTS = 4096  # of a tensor
MOST = 1e4  # of a float; larger ones tell rounding, not faults


class Refused(Exception):
    """ONNX Runtime refuses a node, or its result is of no use here: empty, huge, or not finite."""


class Maker:
    """A model in the making.

    Attributes:
        rng: what every choice is drawn from.
        values: name -> value of every tensor, inputs and constants too.
    """

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.seed = seed
        self.values: dict[str, Array] = {}
        self.inputs: list[str] = []
        self.constants: dict[str, onnx.TensorProto] = {}
        self.nodes: list[onnx.NodeProto] = []
        self._count = 0

    def name(self, stem: str = "t") -> str:
        """A name that no tensor has."""
        self._count += 1
        return f"{stem}{self._count}"

    def noise(self, shape: Sequence[int]) -> Array:
        """Seeded values, of which none is near another's rounding."""
        self._count += 1
        return np.random.default_rng((self.seed, self._count)).uniform(-2, 2, shape).astype(np.float32)

    def input(self, *shape: int) -> str:
        """Adds a float32 input."""
        name = self.name("x")
        self.inputs.append(name)
        self.values[name] = self.noise(shape)
        return name

    def constant(self, value: Any, dtype: Any = np.float32) -> str:
        """Adds an initializer."""
        name, array = self.name("c"), np.asarray(value, dtype)
        self.values[name] = array
        self.constants[name] = numpy_helper.from_array(array, name)
        return name

    def shape(self, name: str) -> tuple[int, ...]:
        """Shape of a tensor."""
        return self.values[name].shape

    def floats(self) -> list[str]:
        """All float32 tensors that are no constants, in the order of their making."""
        return [name for name, value in self.values.items() if value.dtype == np.float32 and name not in self.constants]

    def add(self, op: str, *inputs: str, outputs: int = 1, **attributes: Any) -> str:
        """Adds a node; returns its first output."""
        return self.add_all(op, *inputs, outputs=outputs, **attributes)[0]

    def add_all(self, op: str, *inputs: str, outputs: int = 1, **attributes: Any) -> list[str]:
        """Adds a node; returns its outputs.

        Raises:
            Refused: see there; the model stays what it was.
        """
        names = [self.name() for _ in range(outputs)]
        if any(value == [] for value in attributes.values()):
            raise Refused("an attribute without elements")
        node = helper.make_node(op, inputs, names, f"n_{names[0]}", **attributes)
        results = self._computed(node)
        if any(not _is_useful(value) for value in results):
            raise Refused(op)
        self.nodes.append(node)
        self.values.update(zip(names, results, strict=True))
        return names

    def _computed(self, node: onnx.NodeProto) -> list[Array]:
        model, inputs = self._alone(node)
        try:
            return run_onnxruntime(model, inputs)
        except Exception as error:  # ONNX Runtime has many classes of errors
            raise Refused(str(error)) from error

    def _alone(self, node: onnx.NodeProto) -> tuple[onnx.ModelProto, dict[str, Array]]:
        """The model of one node, and its inputs."""
        read = [name for name in dict.fromkeys([*node.input, *_outer_names(node)]) if name in self.values]
        fixed = [self.constants[name] for name in read if name in self.constants]
        open_ = [name for name in read if name not in self.constants]
        infos = [value_info(name, self.values[name]) for name in open_]
        results = [onnx.ValueInfoProto(name=name) for name in node.output]
        return model_of([node], infos, results, fixed), {name: self.values[name] for name in open_}

    def make_exact(self) -> None:
        """Computes every tensor again from the inputs, products of integers by NumPy, as the reference of farm does.

        Node by node: of a whole model ONNX Runtime believes the shapes that ONNX infers, and refuses some valid ones.
        """
        for node in self.nodes:
            self.values |= run_stages(*self._alone(node), {}, _by_onnxruntime)

    def finish(self, outputs: Sequence[str]) -> onnx.ModelProto:
        """The model with these outputs, which are float32."""
        inputs = [value_info(name, self.values[name]) for name in self.inputs]
        found = [value_info(name, self.values[name]) for name in outputs]
        return model_of(self.nodes, inputs, found, list(self.constants.values()))


def _by_onnxruntime(model: onnx.ModelProto, inputs: Mapping[str, Array]) -> dict[str, Array]:
    results = run_onnxruntime(model, inputs)
    return {value.name: result for value, result in zip(model.graph.output, results, strict=True)}


def _is_useful(value: Array) -> bool:
    if value.size == 0 or value.size > MOST_ELEMENTS:
        return False
    return value.dtype.kind != "f" or bool(np.all(np.abs(value) < MOST))


def _outer_names(node: onnx.NodeProto) -> list[str]:
    bodies = [attribute.g for attribute in node.attribute if attribute.type == onnx.AttributeProto.GRAPH]
    inner = [each for body in bodies for each in body.node]
    return [name for each in inner for name in (*each.input, *_outer_names(each))]


def value_info(name: str, value: Array) -> onnx.ValueInfoProto:
    """The declaration of a tensor."""
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape)


def model_of(
    nodes: Sequence[onnx.NodeProto],
    inputs: Sequence[onnx.ValueInfoProto],
    outputs: Sequence[onnx.ValueInfoProto],
    constants: Sequence[onnx.TensorProto],
) -> onnx.ModelProto:
    """A model of opset `OPSET`."""
    graph = helper.make_graph(nodes, "drawn", inputs, outputs, constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION)


FLOAT = TensorProto.FLOAT
