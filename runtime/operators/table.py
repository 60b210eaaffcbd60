"""The operators of the graph, collected from the rooms of their families, and what their rows say of a graph."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import ml_dtypes  # noqa: F401 - teaches NumPy the name bfloat16
import numpy as np

from runtime.errors import ModelError, UnsupportedError
from runtime.formats.category import FormatCategory
from runtime.formats.permutation import Permutation
from runtime.formats.rewriting import Rewriting
from runtime.graph import Graph, Node, TensorInfo
from runtime.operators.activations import ACTIVATION_ATTRIBUTES, ACTIVATION_PARAMETERS
from runtime.operators.row import Operator, fits_kind
from runtime.registry import collect
from runtime.semantics.quantization import Quantization
from runtime.semantics.shape_functions import Attributes, Shape

# Users' operators are added by runtime/custom/registry.py.
OPERATORS: dict[str, Operator] = collect("OPERATORS")


def infer_shape(op: str, shapes: Sequence[Shape], attributes: Attributes) -> Shape:
    """Infers an operator's output shape; an absent optional input has shape (). Raises ModelError for misfits."""
    operator = OPERATORS[op]
    least, most = operator.inputs
    if len(shapes) < least or (most is not None and len(shapes) > most):
        raise ModelError(f"{len(shapes)} input(s); {least} to {'any number' if most is None else most} are supported")
    return operator.shape(shapes, attributes)


def infer_dtype(op: str, dtypes: Sequence[np.dtype[Any]], attributes: Attributes) -> np.dtype[Any]:
    """Element type of an operator's output: what an attribute or a user says, else the first input's."""
    if custom := OPERATORS[op].custom:
        return np.dtype(custom.output_type) if custom.output_type else dtypes[0]
    if "dtype" in attributes:
        return np.dtype(attributes["dtype"])
    return np.dtype(np.int64) if attributes.get("positions") else dtypes[0]


def infer_quantization(op: str, infos: Sequence[TensorInfo | None], attributes: Attributes) -> Quantization | None:
    """What the elements of an operator's output stand for, where it only moves those of its inputs."""
    known = [info.quantization if info else None for info in infos]
    if not any(known):
        return None
    return OPERATORS[op].quantization(known, [info.shape if info else () for info in infos], attributes)


def carry_quantization(graph: Graph) -> None:
    """Completes what is known of the tensors of a graph by what its operators pass on."""
    for node in graph.nodes:
        info = graph.tensors[node.output]
        infos = [graph.tensors[name] if name else None for name in node.inputs]
        found = None if info.quantization else infer_quantization(node.op, infos, node.attrs)
        if found:
            graph.tensors[node.output] = dataclasses.replace(info, quantization=found)


def node_macs(graph: Graph, node: Node) -> int:
    """Multiply-accumulates of one run of a node."""
    return OPERATORS[node.op].macs(input_shapes(graph, node), graph.shape(node.outputs[0]))


def input_shapes(graph: Graph, node: Node) -> list[Shape]:
    """Shapes of a node's inputs, () for an absent one."""
    return [graph.shape(name) if name else () for name in node.inputs]


def check_graph(graph: Graph) -> None:
    """Raises ModelError unless the graph keeps every rule: order, operators, attributes, shapes and constants."""
    defined = {*graph.inputs, *graph.constants}
    for name, value in graph.constants.items():
        if dataclasses.replace(graph.tensors[name], quantization=None) != TensorInfo(tuple(value.shape), value.dtype):
            raise ModelError(f"constant '{name}' is not of the shape and type that the graph says")
    for node in graph.nodes:
        try:
            _check_node(graph, node, defined)
        except ModelError as error:
            raise type(error)(f"node '{node.name}' ({node.op}): {error}") from None
        defined.update(node.outputs)
    missing = [name for name in graph.outputs if name not in defined]
    if missing:
        raise ModelError(f"output '{missing[0]}' is computed by no node")
    for name in graph.outputs:
        _check_elements(graph, name)


def _check_node(graph: Graph, node: Node, defined: set[str]) -> None:
    if node.op not in OPERATORS:
        raise ModelError("no such operator in a graph")
    for name in node.inputs:
        if name and name not in defined:
            raise ModelError(f"nothing before it computes its input '{name}'")
    if node.output in defined:
        raise ModelError(f"tensor '{node.output}' is written twice")
    check_attributes(node.op, node.attrs)
    for name in filter(None, (*node.inputs, node.output)):
        _check_elements(graph, name)
    shape = infer_shape(node.op, input_shapes(graph, node), node.attrs)
    if shape != graph.shape(node.output):
        raise ModelError(f"output '{node.output}' has shape {graph.shape(node.output)}, not {shape}")
    dtype = infer_dtype(node.op, [graph.tensors[name].dtype for name in node.inputs if name], node.attrs)
    if dtype != graph.tensors[node.output].dtype:
        raise ModelError(f"output '{node.output}' holds {graph.tensors[node.output].dtype}, not {dtype}")


def _check_elements(graph: Graph, name: str) -> None:
    """Raises UnsupportedError for a tensor without elements: no device computes it."""
    if 0 in graph.shape(name):
        raise UnsupportedError(f"tensor '{name}' of shape {graph.shape(name)} has no elements; supported: at least one")


def check_attributes(op: str, attributes: Attributes) -> None:
    """Raises ModelError unless the attributes are exactly those of the operator, each of its kind."""
    expected = dict(OPERATORS[op].attributes)
    if OPERATORS[op].fusible and "activation" in attributes:
        parameters = ACTIVATION_PARAMETERS.get(attributes["activation"], ())
        expected |= {name: ACTIVATION_ATTRIBUTES[name] for name in ("activation", *parameters)}
    if expected.keys() != attributes.keys():
        raise ModelError(f"attributes are {sorted(attributes)}; {sorted(expected)} are expected")
    for name, kind in expected.items():
        value = attributes[name]
        if not fits_kind(kind, value):
            expects = ", ".join(kind) if isinstance(kind, tuple) else kind
            raise ModelError(f"attribute {name} is {value!r}; expected: {expects}")


def format_category(op: str) -> FormatCategory:
    """The category of an operator; one that the table lacks is of source format."""
    return OPERATORS[op].format.category if op in OPERATORS else FormatCategory.SOURCE


def rewritten(graph: Graph, node: Node, perm: Permutation) -> Rewriting | None:
    """How a node works on permuted tensors; None where it does not."""
    rule = OPERATORS[node.op].format.rule if node.op in OPERATORS else None
    return rule(graph, node, perm) if rule else None
