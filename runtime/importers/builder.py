"""Builds a graph node by node: names tensors, infers shapes, and evaluates at once what depends on constants only."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from runtime.errors import ModelError, UnsupportedError
from runtime.graph import Array, Graph, Node, TensorInfo, UniqueNames
from runtime.importers.onnx_node import OnnxNode
from runtime.importers.tensors import LARGEST_BYTES, is_float
from runtime.operators.table import OPERATORS, check_attributes, infer_dtype, infer_quantization, infer_shape
from runtime.oracle.evaluate import compute
from runtime.semantics.generic import GENERIC_OPERATORS
from runtime.semantics.generic_forms import generic_form
from runtime.semantics.quantization import Quantization

_INFINITE = (*GENERIC_OPERATORS, "Add", "Max", "Min")  # masks are added, and limits are taken, that are infinite
MAX_ELEMENTS = 2**31 - 1  # farmrt counts them so


class GraphBuilder:
    """A graph under construction; shape arithmetic never enters it, since it is evaluated as it is met.

    `folded` lists the nodes of the model that became constants. `in_floats`: of a model that
    rounds as TFLite does, the tensors that it has in floats; None of any other.
    """

    in_floats: Collection[str] | None = None

    def __init__(self, name: str, reserved: Iterable[str]) -> None:
        """`reserved` are the names of the model's tensors, which no intermediate tensor may take."""
        self.graph = Graph(name, [], [], [], {}, {})
        self.folded: list[str] = []
        self._tensor_names = UniqueNames(reserved)
        self._node_names = UniqueNames()

    @classmethod
    def over(cls, graph: Graph, kept: Iterable[Node]) -> GraphBuilder:
        """A builder that gives a graph new nodes, beside those that are kept; its tensors stay known."""
        builder = cls(graph.name, graph.tensors)
        builder.graph = graph
        builder._node_names = UniqueNames(node.name for node in kept)
        graph.nodes = []
        return builder

    def add_input(self, name: str, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        """Adds a graph input."""
        check_elements(f"input '{name}'", shape)
        self.graph.inputs.append(name)
        self.graph.tensors[name] = TensorInfo(shape, dtype)

    def dtype(self, tensor: str) -> np.dtype[Any]:
        """Element type of a tensor; every float is float32 within the graph."""
        return self.graph.tensors[tensor].dtype

    def add_constant(self, name: str, value: Array) -> str:
        """Sets the constant of a tensor of the model; floating-point values become float32."""
        value = as_graph_type(value)
        self.graph.constants[name] = value
        self.graph.tensors[name] = TensorInfo(tuple(value.shape), value.dtype)
        return name

    def derived(self, name: str, value: Array) -> str:
        """Adds a constant that the importer computed, under a name like `name`; returns its name."""
        return self.add_constant(self.fresh(name), value)

    def describe(self, tensor: str, quantization: Quantization | None) -> None:
        """Says what the elements of a tensor stand for, where that is known and was not before."""
        info = self.graph.tensors[tensor]
        if quantization and not info.quantization:
            self.graph.tensors[tensor] = dataclasses.replace(info, quantization=quantization)

    def settle(self) -> None:
        """Drops constants that nothing reads; ModelError where one that is computed with holds NaN or infinity."""
        graph = self.graph
        used = {name for node in graph.nodes for name in node.inputs} | set(graph.outputs)
        for name in [name for name in graph.constants if name not in used]:
            del graph.constants[name], graph.tensors[name]
        for name, value in graph.constants.items():
            if any(name in node.inputs and node.op not in _INFINITE for node in graph.nodes):
                check_finite(name, value)

    def fresh(self, name: str) -> str:
        """A name like `name` that no other tensor has or will have."""
        return self._tensor_names.take(name)

    def shape(self, tensor: str) -> tuple[int, ...]:
        """Shape of a tensor of the model."""
        return self.graph.tensors[tensor].shape

    def constant(self, tensor: str) -> Array | None:
        """Value of a tensor, None where it is absent or known at run time only."""
        return self.graph.constants.get(tensor)

    def require_constant(self, node: OnnxNode, index: int, what: str) -> Array:
        """Value of an input that must be known at conversion."""
        value = self.constant(node.input(index))
        if value is None:
            raise UnsupportedError(
                f"{node}: {what} '{node.input(index)}' is computed at run time; supported: a constant"
            )
        return value

    def integers(self, node: OnnxNode, index: int, what: str) -> tuple[int, ...]:
        """A constant input as a list of integers."""
        value = self.require_constant(node, index, what)
        if value.dtype.kind not in "iu":
            raise ModelError(f"{node}: {what} '{node.input(index)}' holds {value.dtype}, not integers")
        return tuple(int(item) for item in value.reshape(-1))

    def scalar(self, node: OnnxNode, index: int, what: str) -> float:
        """A constant input of one element."""
        value = self.require_constant(node, index, what)
        if value.size != 1:
            raise ModelError(f"{node}: {what} '{node.input(index)}' has shape {value.shape}, not one element")
        return float(value.reshape(-1)[0])

    def weights(self, node: OnnxNode, index: int, what: str) -> Array:
        """A constant float input; ModelError naming the tensor where it holds NaN or infinity."""
        value = self.require_constant(node, index, what)
        check_finite(node.input(index), value)
        return value

    def emit(
        self,
        node: OnnxNode,
        op: str,
        inputs: Sequence[str],
        attributes: Mapping[str, Any] | None = None,
        output: str | None = None,
    ) -> str:
        """Adds an operator that writes `output` (None: a new intermediate tensor) and returns that tensor's name."""
        inputs = list(inputs)
        while inputs and not inputs[-1]:
            inputs.pop()
        attributes = dict(attributes or {})
        shape = self._checked_shape(node, op, inputs, attributes)
        dtype = infer_dtype(op, [self.dtype(name) for name in inputs if name], attributes)
        quantization = infer_quantization(op, [self.graph.tensors.get(name) for name in inputs], attributes)
        output = self.fresh(f"{node.label}/{op}") if output is None else output
        arguments = [self.constant(name) for name in inputs]
        if all(value is not None or not name for value, name in zip(arguments, inputs, strict=True)):
            check_size(node, shape)
            self.folded.append(node.name)
            value = self._folded(node, op, arguments, attributes)
            self.graph.constants[output] = value.astype(dtype) if _is_typed(op) else as_graph_type(value)
            self.graph.tensors[output] = TensorInfo(
                tuple(value.shape), self.graph.constants[output].dtype, quantization
            )
            return output
        self._append(node, *self._typed(node, op, inputs, attributes), output)
        self.graph.tensors[output] = TensorInfo(shape, dtype, quantization)
        return output

    def _typed(
        self, node: OnnxNode, op: str, inputs: list[str], attributes: dict[str, Any]
    ) -> tuple[str, list[str], dict[str, Any]]:
        """The operator as its element types need it: only generic and users' ones know others than float32."""
        others = [name for name in inputs if name and self.dtype(name) != np.float32]
        if _is_typed(op) or not others:
            return op, inputs, attributes
        form = generic_form(op, [self.shape(name) for name in inputs if name], self.dtype(others[0]), attributes)
        if form is None or any(self.dtype(name) != self.dtype(others[0]) for name in inputs):
            raise UnsupportedError(
                f"{node}: input '{others[0]}' holds {self.dtype(others[0])} at run time; supported: float32"
            )
        return form[0], inputs, form[1]

    def _checked_shape(self, node: OnnxNode, op: str, inputs: list[str], attributes: dict[str, Any]) -> tuple[int, ...]:
        try:
            check_attributes(op, attributes)
            shape = infer_shape(op, [self.shape(name) if name else () for name in inputs], attributes)
            check_elements("its result", shape)
        except ModelError as error:
            raise type(error)(f"{node}: {error}") from None
        return shape

    def _folded(self, node: OnnxNode, op: str, arguments: list[Array | None], attributes: dict[str, Any]) -> Array:
        """Value of an operator of constants; ModelError where NumPy has none, such as the largest of no elements."""
        try:
            return compute(op, arguments, attributes)
        except (ValueError, ModelError) as error:
            raise ModelError(f"{node}: its constant inputs do not fit: {str(error).splitlines()[0]}") from None

    def _append(self, node: OnnxNode, op: str, inputs: list[str], attributes: dict[str, Any], output: str) -> None:
        name = self._node_names.take(node.name if output == node.label else f"{node.name}/{op}")
        self.graph.nodes.append(Node(op, name, inputs, [output], attributes))


def _is_typed(op: str) -> bool:
    """Whether an operator takes other element types than float32: what says its result's type does, too."""
    row = OPERATORS[op]
    return op in GENERIC_OPERATORS or row.custom is not None or "dtype" in row.attributes


def as_graph_type(value: Array) -> Array:
    """Floating-point values in float32, all others as they are."""
    return value.astype(np.float32, copy=False) if is_float(value.dtype) else value


def check_elements(what: str, shape: Sequence[int]) -> None:
    """Raises ModelError for a tensor that no runtime can hold."""
    if math.prod(shape) > MAX_ELEMENTS:
        raise ModelError(f"{what} of shape {tuple(shape)} has more than {MAX_ELEMENTS} elements")


def check_size(node: OnnxNode, shape: Sequence[int]) -> None:
    """Raises ModelError for a constant that is larger than any sane weight."""
    if math.prod(shape) * 4 > LARGEST_BYTES:
        raise ModelError(f"{node}: a constant of shape {tuple(shape)} is larger than {LARGEST_BYTES} bytes")


def check_finite(name: str, value: Array) -> None:
    """Raises ModelError where a constant that the network computes with holds NaN or infinity."""
    if value.dtype.kind == "f" and not np.isfinite(value).all():
        bad = int((~np.isfinite(value)).sum())
        raise ModelError(f"constant '{name}' holds {bad} NaN or infinite value(s) of {value.size}; repair the model")
