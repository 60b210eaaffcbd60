"""Writes a graph as an ONNX model: in ONNX's operators where one means the same, else in the project's own domain.

The importer reads the result back to an equal graph. An operator of the own domain has the name and the attributes
of the graph's operator.
"""

from collections.abc import Mapping, Sequence
from typing import BinaryIO

import onnx
from onnx import AttributeProto, helper

from runtime.exporters.onnx_writing import OPSET, OnnxWriting, Writer
from runtime.graph import Array, Graph, Node, contiguous_parts
from runtime.importers.farm_domain import DOMAIN, VERSION
from runtime.operators.activations import ACTIVATION_ATTRIBUTES
from runtime.operators.table import OPERATORS
from runtime.registry import collect
from runtime.version import RUNTIME_VERSION

IR_VERSION = 8
MOST_INSIDE = 1 << 28  # bytes of constants in the model's own file
FEW_BYTES = 1 << 16  # stay there


_WRITERS: Mapping[str, Writer] = collect("WRITERS")
_ATTRIBUTE_TYPES: Mapping[str, AttributeProto.AttributeType] = {
    "int": AttributeProto.INT,
    "count": AttributeProto.INT,
    "float": AttributeProto.FLOAT,
    "bool": AttributeProto.INT,
    "ints": AttributeProto.INTS,
    "pair": AttributeProto.INTS,
    "sides": AttributeProto.INTS,
    "floats": AttributeProto.FLOATS,
}


def is_large(graph: Graph) -> bool:
    """Whether constants are to lie in a file beside the model: protobuf holds 2 GiB at most, and copies of them."""
    return sum(value.nbytes for value in graph.constants.values()) > MOST_INSIDE


def export_onnx(graph: Graph, data: BinaryIO | None = None, location: str = "") -> onnx.ModelProto:
    """The graph as a model that `onnx.checker` accepts.

    Constants are stored in the model, or written to `data`, a file of the name `location` beside the model's.
    """
    outside = {name for name, value in graph.constants.items() if data and value.nbytes > FEW_BYTES}
    export = _Export(graph, outside)
    if data:
        export.initializers += [_written(name, graph.constants[name], data, location) for name in sorted(outside)]
    return export.model()


def _written(name: str, value: Array, data: BinaryIO, location: str) -> onnx.TensorProto:
    """A tensor whose bytes are appended to a file."""
    kind = helper.np_dtype_to_tensor_dtype(value.dtype)
    tensor = onnx.TensorProto(name=name, dims=value.shape, data_type=kind, data_location=onnx.TensorProto.EXTERNAL)
    for key, number in (("location", location), ("offset", data.tell()), ("length", value.nbytes)):
        tensor.external_data.add(key=key, value=str(number))
    for part in contiguous_parts(value, value.dtype.newbyteorder("<")):
        data.write(part.data)
    return tensor


class _Export(OnnxWriting):
    """One export: all nodes and tensors."""

    def model(self) -> onnx.ModelProto:
        """Writes all nodes and tensors."""
        graph = self.graph
        nodes = [self._node(node) for node in graph.nodes]
        written = [node.output for node in graph.nodes if node.output not in graph.outputs]
        proto = helper.make_graph(
            nodes,
            graph.name or "model",
            self._infos(graph.inputs),
            self._infos(graph.outputs),
            initializer=self.initializers,
            value_info=self._infos(written),
        )
        domains = sorted({DOMAIN, *(node.domain for node in nodes if node.domain)})
        opsets = [helper.make_opsetid("", OPSET), *(helper.make_opsetid(domain, VERSION) for domain in domains)]
        return helper.make_model(
            proto, opset_imports=opsets, ir_version=IR_VERSION, producer_name="farm", producer_version=RUNTIME_VERSION
        )

    def _node(self, node: Node) -> onnx.NodeProto:
        plain = _WRITERS[node.op](self, node) if node.op in _WRITERS and "activation" not in node.attrs else None
        return plain if plain is not None else _domain_node(node)

    def _infos(self, names: Sequence[str]) -> list[onnx.ValueInfoProto]:
        infos = [(name, self.graph.tensors[name]) for name in names]
        return [
            helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(info.dtype), info.shape)
            for name, info in infos
        ]


def _domain_node(node: Node) -> onnx.NodeProto:
    """Makes a node of the project's or the user's domain, with the attributes as the graph has them."""
    custom = OPERATORS[node.op].custom
    op, domain = (custom.name, custom.domain) if custom else (node.op, DOMAIN)
    proto = helper.make_node(op, node.inputs, node.outputs, node.name, domain=domain)
    kinds = {**ACTIVATION_ATTRIBUTES, **OPERATORS[node.op].attributes}
    for name, value in sorted(node.attrs.items()):
        kind = kinds[name]
        stored = AttributeProto.STRING if isinstance(kind, tuple) else _ATTRIBUTE_TYPES[kind]
        proto.attribute.append(helper.make_attribute(name, value, attr_type=stored))
    return proto
