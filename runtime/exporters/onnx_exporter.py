"""Writes a graph as an ONNX model: in ONNX's operators where one means the same, else in the project's own domain.

The importer reads the result back to an equal graph. An operator of the own domain has the name and the attributes
of the graph's operator.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, BinaryIO

import numpy as np
import onnx
from onnx import AttributeProto, helper, numpy_helper

from runtime.families.elementwise.definition import BINARY, UNARY
from runtime.graph import Array, Graph, Node
from runtime.importers.farm_domain import DOMAIN, VERSION
from runtime.operators.activations import ACTIVATION_ATTRIBUTES
from runtime.operators.table import OPERATORS
from runtime.version import RUNTIME_VERSION

OPSET = 17
IR_VERSION = 8
MOST_INSIDE = 1 << 28  # bytes of constants in the model's own file
FEW_BYTES = 1 << 16  # stay there


def _is_in_onnx(op: str, parameters: Iterable[str]) -> bool:
    """Whether ONNX has an operator of the name in this opset, with these attributes."""
    known = onnx.defs.has(op, OPSET)
    return known and set(onnx.defs.get_schema(op, OPSET).attributes) == set(parameters)


_ONNX_UNARY = tuple(op for op, parameters in UNARY.items() if _is_in_onnx(op, parameters))
_INT64_MIN = int(np.iinfo(np.int64).min)
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
    data.write(np.ascontiguousarray(value, value.dtype.newbyteorder("<")).data)
    return tensor


class _Export:
    """One export: collects the initializers that stand for attributes of the graph."""

    def __init__(self, graph: Graph, outside: Collection[str] = ()) -> None:
        """All constants are initializers of the model, but those that lie `outside`."""
        self.graph = graph
        inside = (name for name in graph.constants if name not in outside)
        self.initializers = [numpy_helper.from_array(graph.constants[name], name) for name in inside]
        self._names = set(graph.tensors)

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

    def constant(self, node: Node, what: str, value: Array) -> str:
        """Adds an initializer for something that the graph holds as an attribute; returns its name."""
        name = f"{node.output}/{what}"
        while name in self._names:
            name += "_"
        self._names.add(name)
        self.initializers.append(numpy_helper.from_array(value, name))
        return name

    def integers(self, node: Node, what: str) -> str:
        """Adds an initializer for an attribute that is a list of integers."""
        return self.constant(node, what, np.asarray(node.attrs[what], np.int64))

    def plain(self, node: Node, op: str, inputs: Sequence[str], **attributes: Any) -> onnx.NodeProto:
        """Makes a node of ONNX's own operators that writes what the graph's node writes."""
        return helper.make_node(op, inputs, node.outputs, node.name, **attributes)

    def _node(self, node: Node) -> onnx.NodeProto:
        plain = _PLAIN[node.op](self, node) if node.op in _PLAIN and "activation" not in node.attrs else None
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


Writer = Callable[[_Export, Node], onnx.NodeProto | None]


def _same(export: _Export, node: Node) -> onnx.NodeProto:
    """Writes an operator whose name and attributes are the same in ONNX."""
    return export.plain(node, node.op, node.inputs, **node.attrs)


def _conv(export: _Export, node: Node) -> onnx.NodeProto | None:
    if node.input(3):
        return None
    kernel = export.graph.shape(node.inputs[1])[2:]
    return export.plain(node, "Conv", node.inputs, kernel_shape=kernel, **node.attrs)


def _conv_transpose(export: _Export, node: Node) -> onnx.NodeProto | None:
    """Leaves negative pads to the project's domain: the importer reads ONNX's only together with an output_shape."""
    if node.input(3) or min(node.attrs["pads"]) < 0:
        return None
    kernel = export.graph.shape(node.inputs[1])[2:]
    return export.plain(node, "ConvTranspose", node.inputs, kernel_shape=kernel, **node.attrs)


def _fully_connected(export: _Export, node: Node) -> onnx.NodeProto | None:
    """Writes Gemm, which has two axes and no residual; others are left to the project's domain."""
    is_gemm = len(export.graph.shape(node.output)) == 2 and len(node.inputs) < 4
    return export.plain(node, "Gemm", node.inputs, transB=1) if is_gemm else None


def _matmul(export: _Export, node: Node) -> onnx.NodeProto | None:
    """Leaves a product with a constant matrix to the own domain: the importer reads ONNX's as FullyConnected."""
    b = node.inputs[1]
    return None if export.graph.is_constant(b) and len(export.graph.shape(b)) == 2 else _same(export, node)


def _pool(export: _Export, node: Node) -> onnx.NodeProto:
    attributes = {name: value for name, value in node.attrs.items() if name != "kernel"}
    if "count_include_pad" in attributes:
        attributes["count_include_pad"] = int(attributes["count_include_pad"])
    return export.plain(node, node.op, node.inputs, kernel_shape=node.attrs["kernel"], **attributes)


def _clip(export: _Export, node: Node) -> onnx.NodeProto:
    low, high = (
        export.constant(node, what, np.asarray(node.attrs[name], np.float32))
        for what, name in (("min", "alpha"), ("max", "beta"))
    )
    return export.plain(node, "Clip", [node.inputs[0], low, high])


def _slice(export: _Export, node: Node) -> onnx.NodeProto:
    """Writes a negative end, by which a backward slice includes index 0, as the least integer, as ONNX asks."""
    ends = [end if end >= 0 else _INT64_MIN for end in node.attrs["ends"]]
    inputs = [
        node.inputs[0],
        export.integers(node, "starts"),
        export.constant(node, "ends", np.asarray(ends, np.int64)),
        export.integers(node, "axes"),
        export.integers(node, "steps"),
    ]
    return export.plain(node, "Slice", inputs)


def _pad(export: _Export, node: Node) -> onnx.NodeProto:
    value = export.constant(node, "value", np.asarray(node.attrs["value"], np.float32))
    return export.plain(node, "Pad", [node.inputs[0], export.integers(node, "pads"), value], mode=node.attrs["mode"])


def _reshape(export: _Export, node: Node) -> onnx.NodeProto:
    allowzero = {"allowzero": 1} if 0 in node.attrs["shape"] else {}
    return export.plain(node, "Reshape", [node.inputs[0], export.integers(node, "shape")], **allowzero)


def _resize(export: _Export, node: Node) -> onnx.NodeProto:
    """Writes the output's sizes where the scales follow from them, else the scales, from which the sizes follow."""
    shape, attributes = export.graph.shape(node.inputs[0]), dict(node.attrs)
    sizes, scales = attributes.pop("sizes"), attributes.pop("scales")
    if scales == tuple(size / n for size, n in zip(sizes, shape[2:], strict=True)):
        inputs = ["", "", export.constant(node, "sizes", np.asarray([*shape[:2], *sizes], np.int64))]
    else:
        inputs = ["", export.constant(node, "scales", np.asarray([1, 1, *scales], np.float32))]
    return export.plain(node, "Resize", [node.inputs[0], *inputs], **attributes)


def _reduce(export: _Export, node: Node) -> onnx.NodeProto | None:
    """Leaves a reduction that drops its axes to the project's domain: the importer reads ONNX's as two operators."""
    if not node.attrs["keepdims"]:
        return None
    if node.op == "ReduceSum":
        return export.plain(node, node.op, [node.inputs[0], export.integers(node, "axes")], keepdims=1)
    return export.plain(node, node.op, node.inputs, axes=node.attrs["axes"], keepdims=1)


def _space_to_depth(export: _Export, node: Node) -> onnx.NodeProto | None:
    """Leaves the mode that this opset lacks to the project's domain."""
    if node.attrs["mode"] != "DCR":
        return None
    return export.plain(node, node.op, node.inputs, blocksize=node.attrs["blocksize"])


_PLAIN: Mapping[str, Writer] = {
    **dict.fromkeys((*BINARY, *_ONNX_UNARY, "PRelu", "LRN", "Softmax", "LogSoftmax", "Concat", "Transpose"), _same),
    "DepthToSpace": _same,
    "SpaceToDepth": _space_to_depth,
    **dict.fromkeys(("ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin"), _reduce),
    "Conv": _conv,
    "ConvTranspose": _conv_transpose,
    "FullyConnected": _fully_connected,
    "MatMul": _matmul,
    "MaxPool": _pool,
    "AveragePool": _pool,
    "Clip": _clip,
    "Slice": _slice,
    "Pad": _pad,
    "Reshape": _reshape,
    "Resize": _resize,
}
