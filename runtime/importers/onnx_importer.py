"""Imports ONNX models: binds input shapes, keeps what the outputs need, and has each operator family add its nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import onnx

from runtime.errors import ModelError, UnsupportedError
from runtime.graph import Graph
from runtime.importers import (
    constants,
    convolution,
    elementwise,
    linear,
    movement,
    normalization,
    pooling,
    reduction,
    resize,
)
from runtime.importers.builder import GraphBuilder, check_finite
from runtime.importers.farm_domain import DOMAIN, VERSION, import_farm_node
from runtime.importers.inputs import bind_inputs
from runtime.importers.onnx_node import OnnxNode
from runtime.importers.registry import Handler
from runtime.importers.tensors import tensor_value

OLDEST_OPSET = 7
NEWEST_OPSET = onnx.defs.onnx_opset_version()
_FAMILIES = (
    constants,
    convolution,
    elementwise,
    linear,
    movement,
    normalization,
    pooling,
    reduction,
    resize,
)
HANDLERS: Mapping[str, Handler] = {op: handler for family in _FAMILIES for op, handler in family.OPERATORS.items()}


def import_onnx(
    model: onnx.ModelProto,
    input_shapes: Mapping[str, tuple[int, ...]] | None = None,
    outputs: Sequence[str] | None = None,
) -> Graph:
    """The graph of a model.

    `input_shapes` binds symbolic and confirms fixed shapes; it may name an intermediate tensor, which then is an input
    and what computes it is left out. `outputs` (default: the model's) may name any tensor. Raises ModelError for
    a damaged or inconsistent model, UnsupportedError for what this importer lacks.
    """
    return OnnxImport(model, input_shapes or {}, outputs).run()


class OnnxImport:
    """One import; `builder.folded` lists afterwards which nodes became constants."""

    def __init__(
        self, model: onnx.ModelProto, input_shapes: Mapping[str, tuple[int, ...]], outputs: Sequence[str] | None
    ) -> None:
        self.proto = model.graph
        self.opsets = _opsets(model)
        self.initializers = {tensor.name: tensor for tensor in model.graph.initializer}
        self.producers = {name: node for node in model.graph.node for name in node.output if name}
        declared = {value.name for value in model.graph.input}
        self.builder = GraphBuilder(model.graph.name or "model", {*self.initializers, *self.producers, *declared})
        self.input_shapes = {name: tuple(shape) for name, shape in input_shapes.items()}
        self.outputs = list(outputs or [value.name for value in model.graph.output])

    def run(self) -> Graph:
        """Imports the model."""
        needed = self._needed_tensors()
        declared = [value for value in self.proto.input if value.name not in self.initializers]
        for name, shape in bind_inputs(declared, self.input_shapes, self.producers.keys(), needed).items():
            self.builder.add_input(name, shape)
        with np.errstate(all="ignore"):  # a constant that overflows is refused at the end, where it is used
            for name, tensor in self.initializers.items():
                if name in needed and name not in self.builder.graph.tensors:
                    self.builder.add_constant(name, tensor_value(tensor, name))
            for proto in self.proto.node:
                if any(name in needed and name not in self.input_shapes for name in proto.output):
                    self._import_node(proto)
        return self._finished()

    def _needed_tensors(self) -> set[str]:
        """The tensors that the outputs depend on, as far back as the given inputs."""
        needed: set[str] = set()
        pending = list(self.outputs)
        while pending:
            name = pending.pop()
            if name in needed:
                continue
            needed.add(name)
            if name in self.producers and name not in self.input_shapes:
                pending += [source for source in self.producers[name].input if source]
        return needed

    def _import_node(self, proto: onnx.NodeProto) -> None:
        domain = "" if proto.domain == "ai.onnx" else proto.domain
        node = OnnxNode.parse(proto, self.opsets.get(domain, 0))
        for name in filter(None, node.inputs):
            if name not in self.builder.graph.tensors:
                raise self._unknown_input(node, name)
        if domain == DOMAIN:
            import_farm_node(node, self.builder)
            return
        if domain or node.op not in HANDLERS:
            supported = ", ".join(sorted(HANDLERS))
            raise UnsupportedError(
                f"{node}: operator {domain or 'ai.onnx'}.{node.op} is not supported; are: {supported}"
            )
        HANDLERS[node.op](node, self.builder)
        if node.unread():
            name = node.unread()[0]
            raise node.unsupported(name, node.attributes[name], f"no attribute of this name in opset {node.opset}")

    def _unknown_input(self, node: OnnxNode, name: str) -> ModelError:
        producer = self.producers.get(name)
        if producer is not None and list(producer.output).index(name) > 0:
            return UnsupportedError(f"{node}: reads '{name}', an output of {producer.op_type} that is not supported")
        return ModelError(f"{node}: nothing before it computes its input '{name}'")

    def _finished(self) -> Graph:
        graph = self.builder.graph
        for name in self.outputs:
            if name not in graph.tensors:
                raise ModelError(
                    f"output '{name}' is computed by no node; the model's outputs: {self._model_outputs()}"
                )
        graph.outputs = self.outputs
        used = {name for node in graph.nodes for name in node.inputs} | set(graph.outputs)
        for name in [name for name in graph.constants if name not in used]:
            del graph.constants[name], graph.tensors[name]
        for name, value in graph.constants.items():
            check_finite(name, value)
        return graph

    def _model_outputs(self) -> str:
        return ", ".join(value.name for value in self.proto.output)


def _opsets(model: onnx.ModelProto) -> dict[str, int]:
    """Version of each domain; UnsupportedError for one outside the supported range."""
    opsets = {"" if entry.domain == "ai.onnx" else entry.domain: entry.version for entry in model.opset_import}
    version = opsets.get("", 0)
    if "" not in opsets:
        raise ModelError("the model names no opset; it is damaged, or no ONNX model")
    if not OLDEST_OPSET <= version <= NEWEST_OPSET:
        raise UnsupportedError(f"the model uses opset {version}; supported: {OLDEST_OPSET} to {NEWEST_OPSET}")
    if opsets.get(DOMAIN, VERSION) != VERSION:
        raise UnsupportedError(f"the model uses version {opsets[DOMAIN]} of domain '{DOMAIN}'; supported: {VERSION}")
    return opsets
