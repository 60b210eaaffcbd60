"""Imports ONNX models: binds input shapes, keeps what the outputs need, and has each operator family add its nodes."""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx

from runtime.errors import ModelError, UnsupportedError
from runtime.graph import Graph
from runtime.importers.builder import GraphBuilder
from runtime.importers.control_flow import chosen_branch, unrolled_loop, unrolled_scan
from runtime.importers.farm_domain import DOMAIN, VERSION, CustomNames, import_custom_node, import_farm_node
from runtime.importers.four_bits import widened
from runtime.importers.functions import (
    FunctionKey,
    check_written_once,
    domain_of,
    expanded,
    function_key,
    function_of,
    own_functions,
    schema_defaults,
    versions_of,
)
from runtime.importers.handlers import HANDLERS, ONNX_FUNCTIONS
from runtime.importers.inputs import bind_inputs, element_dtype, input_dtype
from runtime.importers.onnx_file import whole
from runtime.importers.onnx_node import OnnxNode
from runtime.importers.quantized_moves import moves_integers, nodes_in_floats
from runtime.importers.refusals import Refusals
from runtime.importers.registry import StandIn
from runtime.importers.scopes import constant_names, names_read
from runtime.importers.stand_ins import first_output, needs_stand_in, stand_in, with_nodes
from runtime.importers.tensors import constant_tensors, is_float, tensor_value
from runtime.semantics.generic_forms import element_form
from runtime.semantics.quantization import FIXED_POINT_BUT

OLDEST_OPSET = 7
MAX_VERSION = 2**31 - 1
NEWEST_OPSET = onnx.defs.onnx_opset_version()
CLASSIC = "ai.onnx.ml"  # domain of classic machine learning, none of whose names is one of the main domain
_FLOAT32 = np.dtype(np.float32)
_CONVERTER_ERRORS = (
    *(RuntimeError, TypeError, ValueError, onnx.version_converter.ConvertError, onnx.checker.ValidationError),
    onnx.shape_inference.InferenceError,
)
_MISFITS = (ValueError, IndexError, OverflowError, MemoryError, ZeroDivisionError)
_WITH_BODIES = {"If": chosen_branch, "Loop": unrolled_loop, "Scan": unrolled_scan}


def import_onnx(
    model: onnx.ModelProto,
    input_shapes: Mapping[str, tuple[int, ...]] | None = None,
    outputs: Sequence[str] | None = None,
    custom: CustomNames | None = None,
) -> Graph:
    """The graph of a model.

    `input_shapes` binds symbolic and confirms fixed shapes; it may name an intermediate tensor, which then is an input
    and what computes it is left out. `outputs` (default: the model's) may name any tensor. `custom`: the users'
    operators that the model may have. Raises ModelError for a damaged or inconsistent model, UnsupportedError for what
    this importer lacks.
    """
    return OnnxImport(model, input_shapes or {}, outputs, custom).run()


def with_stand_ins(model: onnx.ModelProto, custom: CustomNames | None = None) -> onnx.ModelProto:
    """The model with what its import puts in place of nodes that no two runtimes compute alike."""
    if not needs_stand_in(model):
        return model
    model = _modern(model)
    importer = OnnxImport(model, {}, None, custom)
    importer.run()
    return with_nodes(model, importer.stand_ins)


class OnnxImport:
    """One import; `builder.folded` lists afterwards which nodes became constants.

    `stand_ins`: the nodes in place of some, by what these write first; `notes`: what is to be told, and of which.

    Floats are float32 within the graph. An input or output of another float type keeps its name and type, and is
    converted at once; nodes then read or write `<name>/float32` in its place.
    """

    def __init__(
        self,
        model: onnx.ModelProto,
        input_shapes: Mapping[str, tuple[int, ...]],
        outputs: Sequence[str] | None,
        custom: CustomNames | None = None,
    ) -> None:
        model = _modern(model)
        self.proto = model.graph
        self.opsets = _opsets(model)
        self.initializers = widened(constant_tensors(model.graph), model.graph)
        self._functions = own_functions(model)
        self._open: list[FunctionKey] = []
        self.producers = _producers(model.graph)
        declared = {value.name for value in model.graph.input}
        self.builder = GraphBuilder(model.graph.name or "model", {*self.initializers, *self.producers, *declared})
        self.builder.in_floats = _tensors_in_floats(model)
        self.input_shapes = {name: tuple(shape) for name, shape in input_shapes.items()}
        self.outputs = list(outputs or [value.name for value in model.graph.output])
        self.stand_ins: dict[str, list[onnx.NodeProto]] = {}
        self.notes: dict[str, list[str]] = {}
        self._custom = custom or {}
        self._renamed: dict[str, str] = {}
        self._refusals = Refusals()

    def run(self) -> Graph:
        """Imports the model."""
        needed = self._needed_tensors()
        self._add_inputs(needed)
        output_types = self._output_types()
        for name in output_types:
            if name in self.producers:
                self._renamed[name] = self.builder.fresh(f"{name}/float32")
        with np.errstate(all="ignore"):  # a constant that overflows is refused at the end, where it is used
            for name, tensor in self.initializers.items():
                if name in needed and name not in self.builder.graph.tensors:
                    self.builder.add_constant(name, tensor_value(tensor, name))
            for proto in self.proto.node:
                if any(name in needed and name not in self.input_shapes for name in proto.output):
                    self._import_node(proto, self.opsets)
            self._refusals.check()
            for name, dtype in output_types.items():
                if name in self.producers:
                    self._convert(self._renamed[name], name, dtype)
        return self._finished()

    def _add_inputs(self, needed: set[str]) -> None:
        declared = [value for value in self.proto.input if value.name not in self.initializers]
        types = {value.name: value for value in declared}
        for name, shape in bind_inputs(declared, self.input_shapes, self.producers.keys(), needed).items():
            dtype = input_dtype(types[name]) if name in types else _FLOAT32
            self.builder.add_input(name, shape, dtype)
            if self._is_converted(dtype):
                self._renamed[name] = self.builder.fresh(f"{name}/float32")
                self._convert(name, self._renamed[name], _FLOAT32)

    def _output_types(self) -> dict[str, np.dtype[Any]]:
        """The outputs of the model that are floats, but no float32."""
        found = {}
        for value in self.proto.output:
            dtype = element_dtype(value.type.tensor_type.elem_type)
            if value.name in self.outputs and dtype is not None and self._is_converted(dtype):
                found[value.name] = dtype
        return found

    def _is_converted(self, dtype: np.dtype[Any]) -> bool:
        """Whether an input or output of a type needs a conversion; a graph that the exporter wrote has its own."""
        return is_float(dtype) and dtype != _FLOAT32 and DOMAIN not in self.opsets

    def _convert(self, source: str, target: str, dtype: np.dtype[Any]) -> None:
        """Adds a conversion of a tensor to another element type."""
        if source not in self.builder.graph.tensors:
            return
        node = OnnxNode("Cast", f"{target}/conversion", (source,), (target,), NEWEST_OPSET, {})
        self.builder.emit(node, "Elementwise", [source], element_form("cast", dtype), target)

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
                pending += names_read(self.producers[name])
        return needed

    def _import_node(self, proto: onnx.NodeProto, opsets: Mapping[str, int]) -> None:
        """Adds what a node computes, or remembers why it cannot be added."""
        domain = domain_of(proto)
        node = OnnxNode.parse(proto, opsets.get(domain, 0), self._renamed)
        unknown = [name for name in filter(None, node.inputs) if name not in self.builder.graph.tensors]
        if any(self._refusals.lacks(name) for name in unknown):
            known = domain in ("", CLASSIC, DOMAIN) and (node.op in HANDLERS or self._is_defined(proto, node))
            own = (domain, node.op) in (*self._custom, *ONNX_FUNCTIONS) or function_key(proto) in self._functions
            self._refusals.skip(node, known or bool(stand_in(proto)) or own)
            return
        if unknown:
            raise self._unknown_input(node, unknown[0])
        try:
            self._dispatch(proto, node, domain)
        except UnsupportedError as error:
            self._refusals.add(node, error)
        except _MISFITS as error:  # of a damaged node: sizes that no tensor has, lists that are too short, ...
            reason = (str(error).splitlines() or [type(error).__name__])[0]
            raise ModelError(f"{node}: its inputs and attributes do not fit: {reason}") from error

    def _dispatch(self, proto: onnx.NodeProto, node: OnnxNode, domain: str) -> None:
        if domain == DOMAIN:
            import_farm_node(node, self.builder)
        elif (domain, node.op) in self._custom:
            import_custom_node(node, self._custom[domain, node.op], self.builder)
        elif function_key(proto) in self._functions:
            self._call(proto, node)
        elif domain == "" and node.op in _WITH_BODIES:
            self._import_nodes(_WITH_BODIES[node.op](proto, node, self.builder), {**self.opsets, "": node.opset})
        elif (domain, node.op) in ONNX_FUNCTIONS:
            shapes = [self.builder.shape(name) if name else () for name in node.inputs]
            text = ONNX_FUNCTIONS[domain, node.op](proto, shapes)
            self._import_function(onnx.parser.parse_function(text), proto, {})
        elif other := stand_in(proto):
            self._stand_in(proto, node, other)
        elif domain == "" and moves_integers(node, self.builder):
            self._import_nodes(nodes_in_floats(proto, node, self.builder), {**self.opsets, "": node.opset})
        elif domain in ("", CLASSIC) and node.op in HANDLERS:
            HANDLERS[node.op](node, self.builder)
            if node.unread():
                name = node.unread()[0]
                raise node.unsupported(name, node.attributes[name], f"no attribute of this name in opset {node.opset}")
        else:
            self._expand(proto, node)

    def _call(self, proto: onnx.NodeProto, node: OnnxNode) -> None:
        """Adds the nodes of a function of the model."""
        key = function_key(proto)
        if key in self._open:
            raise ModelError(f"{node}: the function {node.op} is part of itself")
        self._open.append(key)
        try:
            self._import_function(self._functions[key], proto, {})
        finally:
            self._open.pop()

    def _import_function(
        self, function: onnx.FunctionProto, proto: onnx.NodeProto, defaults: Mapping[str, onnx.AttributeProto]
    ) -> None:
        opsets = {**self.opsets, **versions_of(function.opset_import)}
        self._import_nodes(expanded(function, proto, defaults, self.builder.fresh), opsets)

    def _stand_in(self, proto: onnx.NodeProto, node: OnnxNode, other: StandIn) -> None:
        """Adds other nodes for one; not within a body or a function, where the oracle could not have them."""
        name = first_output(proto)
        if self.producers.get(name) != proto:
            raise UnsupportedError(f"{node}: it is within another node; supported: nodes of the model itself")
        self.stand_ins[name] = other.nodes(proto, node, self.builder)
        self.notes.setdefault(other.note, []).append(node.name)
        self._import_nodes(self.stand_ins[name], self.opsets)

    def _expand(self, proto: onnx.NodeProto, node: OnnxNode) -> None:
        """Adds the nodes of ONNX's own definition of an operator."""
        infos = [self.builder.graph.tensors[name] if name else None for name in node.inputs]
        function = function_of(proto, node.opset, infos)
        if function is None:
            operator = f"{proto.domain or 'ai.onnx'}.{node.op}"
            raise UnsupportedError(f"{node}: operator {operator} is not supported; {self._supported(proto.domain)}")
        self._import_function(function, proto, schema_defaults(proto, node.opset))

    def _supported(self, domain: str) -> str:
        """What there is in place of an operator of a domain that is not supported."""
        if domain in ("", "ai.onnx"):
            return f"are: {', '.join(sorted(HANDLERS))}"
        return "custom_operators in the deployment file may name a module that has it (docs/custom-operators.md)"

    def _import_nodes(self, protos: Iterable[onnx.NodeProto], opsets: Mapping[str, int]) -> None:
        """Adds nodes that stand for one of the model."""
        for proto in protos:
            self._import_node(proto, opsets)

    def _is_defined(self, proto: onnx.NodeProto, node: OnnxNode) -> bool:
        """Whether ONNX defines the operator by others; asked where an input's type is not known."""
        try:
            schema: Any = onnx.defs.get_schema(node.op, node.opset, proto.domain)
        except onnx.defs.SchemaError:
            return False
        return bool(node.op in _WITH_BODIES or schema.has_function or schema.has_context_dependent_function)

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
        self.builder.settle()
        return graph

    def _model_outputs(self) -> str:
        return ", ".join(value.name for value in self.proto.output)


def _producers(graph: onnx.GraphProto) -> dict[str, onnx.NodeProto]:
    """The node that writes each tensor."""
    given = dict.fromkeys((value.name for value in graph.input), "an input of the model")
    check_written_once(graph.node, dict.fromkeys(constant_names(graph), "a constant") | given)
    return {name: node for node in graph.node for name in node.output if name}


def _tensors_in_floats(model: onnx.ModelProto) -> Collection[str] | None:
    """What metadata says of a model that rounds by fixed point; None of any other."""
    value = next((each.value for each in model.metadata_props if each.key == FIXED_POINT_BUT), "")
    try:
        return frozenset(map(str, json.loads(value))) if value else None
    except (ValueError, TypeError):
        raise ModelError(f"its metadata {FIXED_POINT_BUT} are damaged; convert the model again") from None


def _modern(model: onnx.ModelProto) -> onnx.ModelProto:
    """A model of an opset before the oldest one is brought to it; UnsupportedError where ONNX cannot."""
    version = versions_of(model.opset_import).get("", OLDEST_OPSET)
    if not 0 < version < OLDEST_OPSET:
        return model
    try:
        return onnx.version_converter.convert_version(whole(model), OLDEST_OPSET)
    except _CONVERTER_ERRORS as error:
        reason = (str(error).splitlines() or ["no reason"])[0]
        raise UnsupportedError(
            f"the model uses opset {version}, which ONNX's converter does not bring to {OLDEST_OPSET}: {reason}"
        ) from None


def _opsets(model: onnx.ModelProto) -> dict[str, int]:
    """Version of each domain; UnsupportedError for one outside the supported range."""
    opsets = versions_of(model.opset_import)
    if not opsets:
        raise ModelError("the model names no opset; it is damaged, or no ONNX model")
    for domain, number in opsets.items():
        if not 0 < number <= MAX_VERSION:
            raise ModelError(f"the model uses version {number} of domain '{domain}', which no domain has")
    version = opsets.setdefault("", NEWEST_OPSET)  # a model may need other domains alone
    if not OLDEST_OPSET <= version <= NEWEST_OPSET:
        raise UnsupportedError(f"the model uses opset {version}; supported: {OLDEST_OPSET} to {NEWEST_OPSET}")
    if opsets.get(DOMAIN, VERSION) != VERSION:
        raise UnsupportedError(f"the model uses version {opsets[DOMAIN]} of domain '{DOMAIN}'; supported: {VERSION}")
    return opsets
